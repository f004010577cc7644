package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/rlproxy/rlproxy/web"
)

// live is the state that SIGHUP replaces while the process runs. Only the goroutine
// of serve changes it.
type live struct {
	load   func() (*config, error) // reads the configuration again
	config atomic.Pointer[config]  // the configuration in force; never modified
	acl    *acl.List               // the users in force
	level  slog.LevelVar           // the log level in force
	tls    listenerTLS

	// Set by newServer and newWeb; nil before.
	handler *commands.Handler
	server  *resp.Server
	web     *web.Server
}

// settings answers CONFIG GET.
func (l *live) settings(pattern string) [][2]string { return l.config.Load().matching(pattern) }

// prepared holds what live directives refer to, loaded and valid.
type prepared struct {
	tls *tls.Config // nil without tls-port
	acl *acl.List
}

// protected reports whether only clients on this machine are answered.
func (p *prepared) protected(c *config) bool { return c.protectedMode && p.acl.Anonymous() != nil }

// prepare loads the certificates and users that c refers to.
func prepare(c *config) (p prepared, err error) {
	if c.tlsPort != 0 {
		if p.tls, err = c.tls.load(time.Now()); err != nil {
			return p, err
		}
	}
	p.acl, err = c.acl()
	return p, err
}

// apply puts c and p in force.
func (l *live) apply(c *config, p prepared) {
	l.level.Set(c.level())
	l.tls.current.Store(p.tls)
	l.config.Store(c)
	l.acl = p.acl
	if l.server != nil {
		l.server.SetProtectedMode(p.protected(c)) // first: the new ACL may ask for no password
		l.handler.SetACL(p.acl)
		l.handler.SetSlowLog(c.slowerThan, c.slowLogLen)
		l.web.SetRules(p.rules(c))
	}
}

// errOpens is the error of a reload that removes authentication, as that of a file that
// was emptied by mistake would.
var errOpens = errors.New(`clients would need no password any more; if that is meant, say so with requirepass ""`)

// reload reads the configuration and the files that it names again, and applies all
// of it or nothing. It returns the changed directives that need a restart.
func (l *live) reload(eng *engines) (waiting []string, err error) {
	next, err := l.load()
	if err != nil {
		return nil, err
	}
	next, waiting = l.config.Load().with(next)
	p, err := prepare(next)
	if err != nil {
		return nil, err
	}
	if l.acl.Anonymous() == nil && p.acl.Anonymous() != nil && !next.noPass {
		return nil, errOpens
	}
	decisions, err := decisionlog.OpenFile(next.decisionLog) // again, even if it is the same: it may have been renamed
	if err != nil {
		return nil, err
	}
	if eng.fleet != nil {
		if err := eng.fleet.SetTLS(next.backendTLS); err != nil {
			_ = decisions.Close() // nothing was written; it may be nil
			return nil, err
		}
		eng.layout.SetMode(next.layoutGuard)
	}
	eng.decisions.Use(decisions, next.decisions())
	eng.policies.Configure(next.policies.Set())
	l.apply(next, p)
	return waiting, nil
}

// hangup handles SIGHUP.
func (l *live) hangup(eng *engines, log *slog.Logger) {
	waiting, err := l.reload(eng)
	if err != nil {
		log.Error("the configuration is not reloaded, the old one stays in force", "error", err)
		return
	}
	for _, name := range waiting {
		log.Warn("a changed directive waits for a restart", "directive", name)
	}
	log.Info("configuration reloaded")
}

// with returns c with the live settings of next, and the names of the other
// directives whose settings differ.
func (c *config) with(next *config) (merged *config, waiting []string) {
	both := *c
	for i := range directives {
		d := &directives[i]
		if d.value == nil || fmt.Sprint(d.value(next).words()) == fmt.Sprint(d.value(c).words()) {
			continue
		}
		if !d.live {
			waiting = append(waiting, d.name)
			continue
		}
		v := d.value(&both)
		if p, ok := v.(policyLines); ok {
			*p.p = next.policies // both directives at once, since overrides belong to policies
			continue
		}
		if r, ok := v.(repeated); ok {
			r.clear()
		}
		for _, words := range d.value(next).words() {
			v.set(words) // next holds these words, so they are allowed
		}
	}
	return &both, waiting
}
