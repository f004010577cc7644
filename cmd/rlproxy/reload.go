package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/acl"
	configcmd "github.com/rlproxy/rlproxy/commands/config"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/internal/keypair"
	"github.com/rlproxy/rlproxy/internal/login"
	"github.com/rlproxy/rlproxy/internal/machine"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/rlproxy/rlproxy/rls"
	"github.com/rlproxy/rlproxy/web"
)

// live is the state that SIGHUP and CONFIG SET replace while the process runs.
type live struct {
	load   func() (*config.Config, error) // reads the configuration again
	config atomic.Pointer[config.Config]  // the configuration in effect; never modified
	// directives that CONFIG SET has changed since the configuration was read
	changedByCommand atomic.Int64
	reloadFailed     atomic.Bool   // whether the last SIGHUP changed nothing because of an error
	level            slog.LevelVar // the log level in effect
	tls              listenerTLS

	mu       sync.Mutex     // held while the configuration changes
	lastRead *config.Config // the configuration as last read, without the changes of CONFIG SET; guarded by mu
	inEffect prepared       // what the configuration refers to; guarded by mu

	// Set while serve starts, before apply is called.
	log     *slog.Logger
	eng     *engines
	handler *commands.Handler
	server  *resp.Server
	web     *web.Server
	rls     *rls.Server // nil without rls-port
}

// Kill implements commands.Clients.
func (l *live) Kill(id int64) bool { return l.server.Kill(id) }

// Matching implements configcmd.Settings.
func (l *live) Matching(pattern string) [][2]string { return l.config.Load().Matching(pattern) }

// When implements configcmd.Settings.
func (l *live) When(name string) (string, configcmd.When) {
	d := config.Find(strings.ToLower(name))
	switch {
	case d == nil:
		return "", configcmd.AtRestart
	case d.BySet:
		return d.Name, configcmd.AtOnce
	case d.Live:
		return d.Name, configcmd.AtReload
	}
	return d.Name, configcmd.AtRestart
}

// Set implements configcmd.Settings.
func (l *live) Set(by table.Caller, pairs [][2]string) (name, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.config.Load()
	next := *now
	for _, p := range pairs {
		if why := config.Find(p[0]).Change(&next, p[1]); why != "" {
			return p[0], why
		}
	}
	for _, d := range now.Changed(&next, true) { // before it takes effect: it may be the log level
		l.log.Warn("CONFIG SET changed a directive; the next reload or restart reverts it",
			append(d.Changes(now, &next), "user", by.User.Name, "addr", by.Addr)...)
	}
	l.use(&next)
	return "", ""
}

// use puts into effect the live settings of c that name no file: at the start, at SIGHUP and at CONFIG SET. mu is
// held, or nothing is served yet.
func (l *live) use(c *config.Config) {
	l.changedByCommand.Store(int64(len(l.lastRead.Changed(c, true))))
	l.level.Set(c.Level())
	l.config.Store(c)
	l.eng.configure(c)
	l.handler.SetSlowLog(c.SlowerThan, c.SlowLogLen)
}

// prepared holds what live directives refer to, loaded and valid.
type prepared struct {
	tls          *tls.Config // nil without tls-port
	acl          *acl.Users
	certificates map[string]string // what a file with certificates has, by its directive; "" if it is not set
}

// protected reports whether only clients on this machine are answered.
func (p *prepared) protected(c *config.Config) bool {
	return c.ProtectedMode && p.acl.Anonymous() != nil
}

// prepare loads the certificates and users that c refers to, and looks whether passwords can be read.
func prepare(c *config.Config) (p prepared, err error) {
	if c.TLSPort != 0 {
		if p.tls, err = c.TLS.Load(); err != nil {
			return p, err
		}
	}
	for _, l := range []login.Login{c.Logins.Nodes, c.Logins.Sentinels} {
		if _, _, err := l.Read(); err != nil {
			return p, err
		}
	}
	p.certificates = map[string]string{
		"tls-cert-file": keypair.Describe(c.TLS.CertFile), "tls-ca-cert-file": keypair.Describe(c.TLS.CAFile),
		"backend-tls-cert-file":    keypair.Describe(c.BackendTLS.CertFile),
		"backend-tls-ca-cert-file": keypair.Describe(c.BackendTLS.CACertFile),
	}
	p.acl, err = users(c)
	return p, err
}

// apply puts c, which was read, and p into effect. mu is held, or nothing is served yet.
func (l *live) apply(c *config.Config, p prepared) {
	l.tls.current.Store(p.tls)
	l.lastRead, l.inEffect = c, p
	l.server.SetProtectedMode(p.protected(c)) // first: the new ACL may ask for no password
	l.handler.SetACL(p.acl)
	l.web.SetRules(p.rules(c))
	if l.rls != nil {
		l.rls.Set(p.rlsSettings(c))
	}
	l.use(c)
}

// errOpens is the error of a reload that would remove authentication, as a file that was
// emptied by mistake would.
var errOpens = errors.New(`the new configuration would remove authentication; to confirm that, set requirepass ""`)

// reload reads the configuration and the files that it names again, and applies all
// of it or nothing.
func (l *live) reload() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	read, err := l.load()
	if err != nil {
		return err
	}
	now := l.config.Load()
	next, waiting := now.With(read)
	if err := next.Conflict(nil); err != nil { // with a setting that waits for a restart
		return err
	}
	p, err := prepare(next)
	if err != nil {
		return err
	}
	if l.inEffect.acl.Anonymous() == nil && p.acl.Anonymous() != nil && !next.NoPass {
		return errOpens
	}
	// Again, even if it is the same: it may have been renamed.
	decisions, err := machine.OpenAppend("decision-log", next.DecisionLog)
	if err != nil {
		return err
	}
	if l.eng.fleet != nil {
		if err := l.eng.fleet.SetTLS(next.BackendTLS); err != nil {
			_ = decisions.Close() // nothing was written; it may be nil
			return err
		}
		l.eng.fleet.SetLogins(next.Logins)
	}
	l.eng.decisions.Use(decisions, logging(next))
	l.eng.policies.Configure(next.Policies.Set())
	l.logChanges(now, next)
	l.logFiles(p)
	l.apply(next, p)
	warnOpen(next, p, l.log)
	for _, d := range waiting {
		l.log.Warn("changed directive takes effect only after a restart", d.Changes(now, read)...)
	}
	return nil
}

// logChanges logs what a reload changes in the settings that are in effect.
func (l *live) logChanges(now, next *config.Config) {
	bySet := l.lastRead.Changed(now, true)
	for _, d := range now.Changed(next, false) {
		if slices.Contains(bySet, d) {
			l.log.Warn("reload discards a CONFIG SET change", d.Changes(now, next)...)
		} else {
			l.log.Info("reload changes a directive", d.Changes(now, next)...)
		}
	}
}

// logFiles logs what a reload changes in the users and in certificates, which may be in files of the same name.
func (l *live) logFiles(next prepared) {
	now := l.inEffect
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(now.acl.Names(), next.acl.Names()...)))) {
		switch was, is := now.acl.User(name), next.acl.User(name); {
		case was == nil:
			l.log.Info("reload adds a user", "user", name, "rules", brief(is))
		case is == nil:
			l.log.Info("reload removes a user", "user", name, "rules", brief(was))
		case was.String() != is.String():
			l.log.Info("reload changes a user", "user", name, "from", brief(was), "to", brief(is))
		case !was.SamePasswords(is):
			l.log.Info("reload changes a user's passwords", "user", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.certificates)) {
		if was, is := now.certificates[name], next.certificates[name]; was != is {
			l.log.Info("reload changes certificates", "directive", name, "from", was, "to", is)
		}
	}
}

// brief returns a user's rules, cut to 512 characters for the log.
func brief(u *acl.User) string { return fmt.Sprintf("%.512s", u) }

// hangup handles SIGHUP.
func (l *live) hangup() {
	err := l.reload()
	l.reloadFailed.Store(err != nil)
	if err != nil {
		l.log.Error("configuration reload failed; the previous configuration stays in effect", "error", err)
		return
	}
	l.log.Info("configuration reloaded")
}
