package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/info"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/internal/machine"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/rlproxy/rlproxy/rls"
	"github.com/rlproxy/rlproxy/web"
)

// serve starts the log, the engines, the listeners and the server, in this order.
// Once ctx is cancelled it stops in reverse (drain). It calls load at the start and at
// each SIGHUP.
func serve(ctx context.Context, load func() (*config.Config, error), stdout io.Writer) (err error) {
	signal.Ignore(syscall.SIGPIPE)     // or a line of the log would end the process if nobody reads it any more
	hangups := make(chan os.Signal, 1) // one pending reload covers further signals
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	c, err := load()
	if err != nil {
		return err
	}
	ready, err := prepare(c)
	if err != nil {
		return err
	}
	state := &live{load: load}
	state.level.Set(c.Level())
	log, closeLog, err := openLog(c, &state.level, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	eng, err := openEngines(c, log)
	if err != nil {
		return err
	}
	idle, stopIdle := context.WithCancel(context.Background())
	returning := make(chan struct{})
	go func() { returnMemory(idle); close(returning) }() // until the end of serve
	defer func() { stopIdle(); <-returning }()
	ended, err := start(ctx, c, state, ready, eng, log)
	if err != nil {
		return errors.Join(err, eng.close())
	}
	running := cap(ended)
	for serving := true; serving; {
		select {
		case <-hangups:
			state.hangup()
		case <-ctx.Done():
			serving = false
		case err = <-ended: // a listener failed: stop, rather than serve only some addresses
			running--
			serving = false
		}
	}
	log.Info("stopping", "clients", state.server.Stats().Current.Load())
	err = errors.Join(err, drain(c, state, eng))
	for range running {
		err = errors.Join(err, <-ended)
	}
	log.Info("stopped")
	return err
}

// start opens what serves clients: the policies, the decision log, the listeners and the servers. Each
// listener sends to ended when it has ended, which has room for all of them. If start returns an error,
// nothing is served, and the caller closes the engines.
func start(ctx context.Context, c *config.Config, state *live, ready prepared, eng *engines,
	log *slog.Logger) (ended chan error, err error) {
	log.Info("starting", "version", commands.Version, "build", built(), "engine", engineName(c),
		"maxmemory", c.MaxMemory, "maxmemory-clients", c.ClientMemory)
	if eng.fleet != nil {
		eng.fleet.Check() // so that a node that cannot be reached is known before somebody needs it
	}
	limitMemory(c, available(), log)
	if err := eng.keepPolicies(c, log); err != nil {
		return nil, err
	}
	decisions, err := machine.OpenAppend("decision-log", c.DecisionLog)
	if err != nil {
		return nil, err
	}
	eng.decisions.Use(decisions, logging(c))
	listeners, err := listen(ctx, c, state.tls.wrap)
	if err != nil {
		return nil, err
	}
	pages, err := listenMore(ctx, c, "http-port", c.HTTPPort)
	if err != nil {
		closeAll(listeners)
		return nil, err
	}
	envoys, err := listenMore(ctx, c, "rls-port", c.RLSPort)
	if err != nil {
		closeAll(slices.Concat(listeners, pages))
		return nil, err
	}
	server := newServer(c, state, ready, eng, log)
	newWeb(c, state, ready, eng, log)
	newRLS(c, state, ready, eng, log)
	state.apply(c, ready) // all that it configures is open, and nothing is served yet
	ended = make(chan error, len(listeners)+len(pages)+len(envoys))
	for _, l := range listeners {
		log.Info("listening", "address", l.Addr().String())
		go func() { ended <- server.Serve(l) }() // until the drain
	}
	state.serveHTTP(pages, ended, log)
	state.serveRLS(envoys, ended, log)
	return ended, nil
}

// drain ends the servers and closes the engines and the decision log. Clients get the answers to the
// commands that have arrived, if that is done within shutdown-timeout. Then drain closes the
// connections that are left, for which it takes a second or two more. What is not done by then
// ends with the process.
func drain(c *config.Config, state *live, eng *engines) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.ShutdownWithin)
	defer cancel()
	state.web.Drain()
	if state.rls != nil {
		state.rls.Drain()
	}
	err := state.server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("not all clients were answered within shutdown-timeout: %w", err)
	}
	// The HTTP server is shut down even if that failed, since serve waits for its listeners.
	if late := state.web.Shutdown(ctx); late != nil && err == nil {
		err = fmt.Errorf("not all HTTP requests were answered within shutdown-timeout: %w", late)
	}
	if late := state.shutdownRLS(ctx); late != nil && err == nil {
		err = fmt.Errorf("not all requests of Envoy were answered within shutdown-timeout: %w", late)
	}
	if err == nil {
		return within(ctx, eng.close, "the engine or the decision log did not close within shutdown-timeout")
	}
	// Sessions may still use the engines, so they stay open.
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(err, within(last, func() error { eng.decisions.Close(); return nil },
		"the decision log did not close"))
}

// within returns do's error, or one with the text late if ctx ends first.
func within(ctx context.Context, do func() error, late string) error {
	done := make(chan error, 1)
	go func() { done <- do() }() // ends when do returns, or with the process
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New(late)
	}
}

func engineName(c *config.Config) string {
	if len(c.Backends) == 0 {
		return "embedded"
	}
	return "redis"
}

// newServer returns a server of the commands, which use the engines.
func newServer(c *config.Config, state *live, ready prepared, eng *engines, log *slog.Logger) *resp.Server {
	cfg := commands.Config{
		Engine:    eng.decide,
		Keys:      eng.keys,
		Observer:  eng.observer,
		FleetKeys: eng.hotkeys.HotKeys,
		ACL:       ready.acl,
		Settings:  state,
		Slots:     eng.slots,
		Waiting:   eng.waiting,

		Policies:       eng.policies,
		ChangePolicies: eng.store.Change,

		Info:    func() []info.Section { return sections(state, eng) },
		Clients: state,
		Logger:  log,
	}
	if eng.forward != nil { // a nil *Forwarder would make a non-nil interface
		cfg.Forward = eng.forward
	}
	state.log, state.eng = log, eng
	handler := commands.New(cfg)
	warnOpen(c, ready, log)
	server := resp.NewServer(resp.Config{
		MaxClients:        clientLimit(c, eng, log),
		Timeout:           c.Timeout,
		TCPKeepAlive:      c.TCPKeepAlive,
		ProtoMaxBulkLen:   int(c.ProtoMaxBulk),
		QueryBufferLimit:  int(c.QueryBuffer),
		OutputBufferLimit: int(c.OutputBuffer),
		Memory:            eng.memory,
		ProtectedMode:     ready.protected(c),
		Logger:            log,
	}, handler)
	state.handler, state.server = handler, server
	return server
}

// clientLimit returns maxclients, or less if the limit of open files requires that.
func clientLimit(c *config.Config, eng *engines, log *slog.Logger) int {
	nodes := 0
	if eng.fleet != nil {
		t := eng.fleet.Topology()
		if nodes = len(t.Nodes); t.Clustered() {
			nodes += nodes/2 + 1 // it may grow
		}
	}
	files := machine.OpenFiles()
	clients := clientsWithin(c, files, nodes)
	if clients < c.MaxClients {
		log.Warn("lowering maxclients to fit the open-file limit", "maxclients", clients, "files", files)
	}
	return clients
}

// clientsWithin returns how many of maxclients may be connected, so that nodes, the HTTP server and that of
// Envoy have enough of so many files. Nodes rarely have as many connections as they may, so clients have at least
// half of the files.
func clientsWithin(c *config.Config, files, nodes int) int {
	reserved := 32 + nodes*(backend.MaxConnections+forward.MaxConnections) // 32 for listeners, sentinels and logs
	switch {
	case c.HTTPPort == 0:
	case c.HTTPCheck:
		reserved += web.MaxCheckConnections
	default:
		reserved += web.MaxConnections
	}
	if c.RLSPort != 0 {
		reserved += rls.MaxConnections
	}
	return min(c.MaxClients, max(files-reserved, files/2, 1))
}

// warnOpen logs a warning if any client that can connect has full access.
func warnOpen(c *config.Config, ready prepared, log *slog.Logger) {
	if ready.acl.Anonymous() == nil || c.ProtectedMode {
		return
	}
	for _, address := range c.Bind {
		if ip := net.ParseIP(strings.TrimPrefix(address, "-")); ip == nil || !ip.IsLoopback() {
			log.Warn("no password is set and protected-mode is off: any client that can connect has full access")
			return
		}
	}
}
