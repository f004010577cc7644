package main

import (
	"context"
	"log/slog"
	"net"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/rls"
)

// newRLS makes the server that Envoy asks, if rls-port is set. newServer comes before it.
func newRLS(c *config.Config, now *live, ready prepared, eng *engines, log *slog.Logger) {
	if c.RLSPort == 0 {
		return
	}
	now.rls = rls.New(rls.Config{
		Engine:       eng.decide,
		Observer:     eng.observer,
		Policies:     eng.policies,
		Waiting:      eng.store.Waiting,
		LoginRefused: now.handler.LoginRefused,
		Logger:       log,
	}, ready.rlsSettings(c))
}

// rlsSettings returns the settings of the server that Envoy asks.
func (p *prepared) rlsSettings(c *config.Config) rls.Settings {
	return rls.Settings{ACL: p.acl, Protected: p.protected(c), Together: c.RLSTogether, Headers: c.RLSHeaders}
}

// serveRLS answers Envoy on listeners, over TLS if there is a tls-port. Each sends to ended when it has ended.
func (l *live) serveRLS(listeners []net.Listener, ended chan<- error, log *slog.Logger) {
	var secure func(net.Listener) net.Listener
	if l.config.Load().TLSPort != 0 {
		secure = l.tls.wrapHTTP2
	}
	for _, ln := range listeners {
		log.Info("listening for Envoy", "address", ln.Addr().String())
		go func() { ended <- l.rls.Serve(ln, secure) }() // until the shutdown
	}
}

// shutdownRLS shuts the server that Envoy asks down, if there is one.
func (l *live) shutdownRLS(ctx context.Context) error {
	if l.rls == nil {
		return nil
	}
	return l.rls.Shutdown(ctx)
}
