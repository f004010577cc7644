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
	"syscall"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// serve starts in the one order there is: log, engine, listeners, server. It stops
// in the other: no new connections, answers to what has arrived, engine, log. load
// reads the configuration, again at each SIGHUP.
func serve(ctx context.Context, load func() (*config, error), stdout io.Writer) (err error) {
	hangups := make(chan os.Signal, 1) // more of them at a time are one
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
	now := &live{load: load}
	now.apply(c, ready)
	log, closeLog, err := openLog(c, &now.level, stdout)
	if err != nil {
		return fmt.Errorf("can't open the log: %w", err)
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	eng, err := openEngine(c, log)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version(), "engine", engineName(c))
	listeners, err := listen(ctx, c, now.tls.wrap)
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	server := newServer(c, now, ready, eng, log)

	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		log.Info("listening", "address", l.Addr().String())
		go func() { ended <- server.Serve(l) }() // until the shutdown below
	}
	running := len(listeners)
	for serving := true; serving; {
		select {
		case <-hangups:
			now.hangup(eng, log)
		case <-ctx.Done():
			serving = false
		case err = <-ended: // a listener broke; the others cannot make up for it
			running--
			serving = false
		}
	}
	log.Info("stopping", "clients", server.Stats().Current.Load())
	err = errors.Join(err, drain(c, server, eng))
	for range running {
		err = errors.Join(err, <-ended)
	}
	log.Info("stopped")
	return err
}

// drain answers what has arrived and closes the engine, within shutdown-timeout.
// What is left then ends with the process.
func drain(c *config, server *resp.Server, eng engine.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.shutdownWithin)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		// Sessions may still wait for the engine, so it must not be closed.
		return fmt.Errorf("not all clients were answered within shutdown-timeout: %w", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- eng.Close() }() // ends when the engine is closed, or with the process
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return errors.New("the engine was not closed within shutdown-timeout")
	}
}

// openEngine opens the engine that the configuration names.
func openEngine(c *config, log *slog.Logger) (engine.Engine, error) {
	if len(c.backends) == 0 {
		return engine.NewEmbedded(engine.EmbeddedConfig{MaxMemory: c.maxMemory, Policy: c.failPolicy, Rules: c.failRules}), nil
	}
	return engine.OpenRedis(engine.RedisConfig{
		Backends:    c.backends,
		TLS:         c.backendTLS,
		Timeout:     c.backendTimeout,
		Policy:      c.failPolicy,
		Rules:       c.failRules,
		LocalMemory: c.maxMemory,

		ForwardTimeout: c.passthroughTimeout,
		ForwardAdmin:   c.passthroughAdmin,
		ReplyLimit:     c.outputBuffer,
		ReplyMemory:    c.clientMemory,

		HotKeys:      c.hotKeys,
		HotThreshold: int64(c.hotThreshold),

		Logger: log,
	})
}

func engineName(c *config) string {
	if len(c.backends) == 0 {
		return "embedded"
	}
	return "redis"
}

// newServer puts the engine behind the commands and the commands behind a server.
func newServer(c *config, now *live, ready prepared, eng engine.Engine, log *slog.Logger) *resp.Server {
	var out outside
	hot, _ := eng.(commands.HotKeys)
	handler := commands.New(commands.Config{
		Engine:   eng,
		Hot:      hot,
		Version:  version(),
		ACL:      ready.acl,
		Settings: now.settings,
		Info:     func() []commands.Section { return sections(now, eng) },
		Clients:  &out,
		Logger:   log,

		Passthrough: c.passthrough && len(c.backends) > 0,
	})
	out.server = resp.NewServer(resp.Config{
		MaxClients:        warn(c, ready, log),
		Timeout:           c.timeout,
		TCPKeepAlive:      c.tcpKeepalive,
		ProtoMaxBulkLen:   int(c.protoMaxBulk),
		QueryBufferLimit:  int(c.queryBuffer),
		OutputBufferLimit: int(c.outputBuffer),
		ClientMemory:      c.clientMemory,
		ProtectedMode:     ready.protected(c),
		Logger:            log,
	}, handler)
	now.handler, now.server = handler, out.server
	return out.server
}

// outside is what the commands see of the server that they are behind. server is
// set before the first client is.
type outside struct{ server *resp.Server }

// Kill closes a session.
func (o *outside) Kill(id int64) bool { return o.server.Kill(id) }

// warn tells of settings that are allowed and may surprise. It returns how many
// clients there may be.
func warn(c *config, ready prepared, log *slog.Logger) (clients int) {
	const reserved = 64 // files for nodes, listeners, log
	clients = c.maxClients
	if files := openFiles(); clients > files-reserved {
		clients = max(files-reserved, 1)
		log.Warn("maxclients is lowered: the process may not open that many files",
			"maxclients", clients, "files", files)
	}
	if ready.acl.Anonymous() == nil || c.protectedMode {
		return clients
	}
	for _, address := range c.bind {
		if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
			log.Warn("anyone who can connect is answered: no password is asked for and protected-mode is off")
			return clients
		}
	}
	return clients
}
