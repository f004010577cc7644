package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// live is what SIGHUP replaces while the process runs. Only serve's goroutine
// changes it.
type live struct {
	load   func() (*config, error) // reads the configuration again
	config atomic.Pointer[config]  // in force; nobody writes to it
	level  slog.LevelVar           // of the log
	tls    listenerTLS

	// Set by newServer; nil before.
	handler *commands.Handler
	server  *resp.Server
}

// settings answers CONFIG GET.
func (l *live) settings(glob string) [][2]string { return l.config.Load().matching(glob) }

// prepared is what directives that are live name, read and found to be in order.
type prepared struct {
	tls *tls.Config // nil: no tls-port
	acl *commands.ACL
}

// protected tells whether only this machine's clients are answered.
func (p *prepared) protected(c *config) bool { return c.protectedMode && p.acl.Anonymous() != nil }

// prepare reads it.
func prepare(c *config) (p prepared, err error) {
	if c.tlsPort != 0 {
		if p.tls, err = c.tls.load(time.Now()); err != nil {
			return p, err
		}
	}
	p.acl, err = c.acl()
	return p, err
}

// apply puts it in force.
func (l *live) apply(c *config, p prepared) {
	l.level.Set(c.level())
	l.tls.current.Store(p.tls)
	l.config.Store(c)
	if l.server != nil {
		l.server.SetProtectedMode(p.protected(c)) // before who was kept out by a password may come in
		l.handler.SetACL(p.acl)
	}
}

// reload reads the configuration and the files that it names again. All of it comes
// into force, or nothing. It returns the directives that are changed and wait for a
// restart.
func (l *live) reload(eng engine.Engine) (waiting []string, err error) {
	next, err := l.load()
	if err != nil {
		return nil, err
	}
	next, waiting = l.config.Load().with(next)
	p, err := prepare(next)
	if err != nil {
		return nil, err
	}
	if e, ok := eng.(interface {
		SetBackendTLS(engine.BackendTLS) error
	}); ok {
		if err := e.SetBackendTLS(next.backendTLS); err != nil {
			return nil, err
		}
	}
	l.apply(next, p)
	return waiting, nil
}

// hangup answers SIGHUP.
func (l *live) hangup(eng engine.Engine, log *slog.Logger) {
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

// with returns c with the settings of next that are live, and the names of the
// other directives that next has changed.
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
		if r, ok := v.(repeated); ok {
			r.clear()
		}
		for _, words := range d.value(next).words() {
			v.set(words) // next has it, so it is allowed
		}
	}
	return &both, waiting
}
