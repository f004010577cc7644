package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/web"
	"github.com/rlproxy/rlproxy/web/metrics"
)

// listenMore opens all bind addresses on the port of a directive with that name, if it is set.
func listenMore(ctx context.Context, c *config.Config, name string, port int) ([]net.Listener, error) {
	if port == 0 {
		return nil, nil
	}
	open, err := listenPort(ctx, c, port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return open, nil
}

// newWeb makes the HTTP server, which uses the engines. newServer comes before it.
func newWeb(c *config.Config, now *live, ready prepared, eng *engines, log *slog.Logger) {
	nodes, check := web.NoNodes, func() {}
	if eng.fleet != nil {
		nodes, check = web.Ready(c.ReadyNodes), eng.fleet.Check
	}
	now.web = web.New(web.Config{
		Engine:       eng.decide,
		Observer:     eng.observer,
		Ready:        nodes,
		Version:      commands.Version,
		CheckNodes:   check,
		Waiting:      eng.store.Waiting,
		Denials:      eng.decisions.Newest,
		FleetKeys:    eng.hotkeys.HotKeys,
		Port:         c.Port,
		Policies:     eng.policies,
		Alive:        func() { now.handler.Connected() },
		LoginRefused: now.handler.LoginRefused,
		Logger:       log,
		Metrics: metrics.Config{
			Engine:   eng.decide,
			Observer: eng.observer,
			Forward:  eng.forward,
			Stats: func() []engine.Stat {
				stats := slices.Concat(serverStats(now, eng), eng.stats(), eng.store.Stats(), now.web.Stats())
				if now.rls != nil {
					stats = append(stats, now.rls.Stats()...)
				}
				return stats
			},
			NoKeys:  !c.MetricsKeys,
			Version: commands.Version,
			Build:   built(),
		},
	}, ready.rules(c))
}

// rules returns the access rules of the HTTP server.
func (p *prepared) rules(c *config.Config) web.Access {
	return web.Access{ACL: p.acl, Protected: p.protected(c), Admin: c.PageAdmin, Check: c.HTTPCheck}
}

// serveHTTP answers HTTP on listeners, over TLS if there is a tls-port. Each sends to ended
// when it has ended.
func (l *live) serveHTTP(listeners []net.Listener, ended chan<- error, log *slog.Logger) {
	scheme, secure := "http://", (func(net.Listener) net.Listener)(nil)
	if l.config.Load().TLSPort != 0 {
		scheme, secure = "https://", l.tls.wrap
	}
	for _, ln := range listeners {
		log.Info("listening for HTTP", "address", scheme+ln.Addr().String()+"/")
		go func() { ended <- l.web.Serve(ln, secure) }() // until the shutdown
	}
}
