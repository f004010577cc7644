// Package web is the HTTP server of rlproxy: health checks, metrics, decisions for gateways, and the page with its API.
// It has the same users as the commands, and bounds for everything: connections, headers, bodies,
// times, streams. Nothing that it does delays a decision.
//
// Reading order: server.go (this file), guard.go (checks of every
// request), login.go (users), health.go, metrics.go, check.go; sample.go (figures of each second), trails.go (those of
// keys), problems.go, snapshot.go (what a user may see of them), stream.go (watchers), key.go and lists.go.
package web

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/policies"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/conns"
	"github.com/rlproxy/rlproxy/internal/histogram"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/web/metrics"
	"github.com/rlproxy/rlproxy/web/page"
)

// The most connections at the same time.
const (
	MaxConnections      = 64
	MaxCheckConnections = 256 // while Access.Check is set
)

// Bounds of requests and connections.
const (
	headerTime  = 5 * time.Second  // to send the header, or to complete a TLS handshake
	requestTime = 10 * time.Second // to send the whole request
	restTime    = time.Second      // to send what is left of a request that was answered before its end
	answerTime  = 30 * time.Second // to read the answer
	idleTime    = 2 * time.Minute  // until a connection without a request is closed
	maxHeader   = 16 << 10         // bytes
	maxBody     = 16 << 10         // bytes
	maxAsking   = 16               // requests of the page to the engine at the same time
	maxChecks   = 192              // checks at the same time
)

// Config configures a Server. All fields are required, except Waiting.
type Config struct {
	Engine   engine.Engine
	Observer *observe.Observer // counts the engine's decisions

	// Ready selects which nodes must be up for /readyz to succeed.
	Ready Ready

	// Version is the version of rlproxy.
	Version string

	// CheckNodes has the nodes probed, and returns at once. It is called every few seconds.
	CheckNodes func()

	// Waiting returns why the process is not ready although its nodes are, or "". It is not called
	// if Ready is NoNodes. It may be nil. Several goroutines may call it at once.
	Waiting func() string

	// Denials returns the newest denials in groups, the group with the newest one first. Several goroutines may call it
	// at once.
	Denials func() []decisionlog.Group

	// FleetKeys returns the busiest keys of all proxies of the same nodes together, and from how many proxies they are.
	// Several goroutines may call it at once.
	FleetKeys func() (keys []observe.HotKey, proxies int)

	// Port is that of Redis clients, or 0 if there is none. It is only shown.
	Port int

	// Policies are the named policies in effect.
	Policies *policy.Catalog

	// Alive returns if the part of the process that answers commands responds, and hangs
	// otherwise. It is called once a second.
	Alive func()

	// LoginRefused counts and logs a refused login of a client, which is described by pairs of
	// names and values. Several goroutines may call it at once.
	LoginRefused func(client ...any)

	Metrics metrics.Config // sources of /metrics; Stats, which is called each second while a page is open, is required
	Logger  *slog.Logger
}

// Access has the access rules. It is immutable.
type Access struct {
	ACL       *acl.Users // users and their permissions
	Protected bool       // answer only clients on this machine
	Admin     bool       // let users reset the keys that they may reset with RL.RESET
	Check     bool       // answer checks
}

// Server is an HTTP server. It accepts connections once Serve is called.
type Server struct {
	cfg      Config
	log      *slog.Logger
	rules    atomic.Pointer[Access]
	http     http.Server
	conns    conns.Bound
	logins   *acl.Logins
	history  history
	trails   trails
	streams  streams
	asking   places            // of requests of the page to the engine
	checks   *policies.Decider // of checks
	draining atomic.Bool       // the process is stopping
	panics   atomic.Int64      // requests and samples that ended with a panic
	ending   context.Context   // ends with the server
	end      context.CancelFunc

	started    time.Time
	beat       atomic.Int64  // when the sampler last completed a round, in ns after started
	maxSilence time.Duration // the constant maxSilence, except in tests
	eventTime  time.Duration // the constant eventTime, except in tests
	// round trips of the nodes at the last snapshot, by name; used only by the sampler
	trips    map[string]*histogram.Snapshot
	sampling sync.Once      // starts the sampler
	sampled  sync.WaitGroup // the sampler's goroutine
}

// New returns a server with these rules.
func New(cfg Config, rules Access) *Server {
	s := &Server{
		cfg: cfg, log: cfg.Logger, started: time.Now(), maxSilence: maxSilence, eventTime: eventTime,
		streams: streams{open: make(map[*stream]struct{})},
		trails:  trails{seed: maphash.MakeSeed()},
		asking:  make(places, maxAsking),
		checks:  policies.NewDecider(cfg.Engine, cfg.Observer, cfg.Policies, maxChecks),
	}
	s.SetRules(rules)
	s.ending, s.end = context.WithCancel(context.Background())
	s.logins = acl.NewLogins(s.ending)
	var only http.Protocols
	only.SetHTTP1(true)
	s.http = http.Server{
		Handler:                      s.guard(s.routes()),
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  requestTime,
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		Protocols:                    &only,
		DisableGeneralOptionsHandler: true, // it would answer without the guard
		ConnContext:                  withConn,
		// errors of single clients
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// SetRules replaces the rules for later requests.
func (s *Server) SetRules(rules Access) {
	s.rules.Store(&rules)
	if rules.Check {
		s.conns.SetMax(MaxCheckConnections)
		return
	}
	s.conns.SetMax(MaxConnections)
}

// Serve accepts connections from l until Shutdown, then returns nil. It may be called for
// several listeners at once. secure wraps a listener in one for TLS; it is nil without TLS.
func (s *Server) Serve(l net.Listener, secure func(net.Listener) net.Listener) error {
	s.sampling.Do(func() {
		s.beat.Store(int64(time.Since(s.started)))
		s.sampled.Go(s.sample) // until Shutdown
	})
	bounded := s.conns.Listener(l)
	if secure != nil {
		bounded = secure(bounded)
	}
	if err := s.http.Serve(bounded); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Stats returns what metrics show of the server.
func (s *Server) Stats() []engine.Stat {
	open, _ := s.conns.Count()
	return []engine.Stat{
		{Value: int64(open), Metric: "http_connections", Help: "Connections to http-port that are open."},
		{Value: s.conns.Refused(), Metric: "http_connections_refused_total",
			Help: "Connections to http-port that were refused because there were too many, and rlproxy was working " +
				"for each."},
		{Value: int64(s.checks.InProgress()), Metric: "http_checks",
			Help: "Requests to /check that wait for their decisions."},
		{Value: int64(len(s.streams.all())), Metric: "http_streams", Help: "Open pages that are being updated."},
		{Value: s.panics.Load(), Metric: "http_panics_total",
			Help: "Requests to http-port, and samples for the page, that ended with a panic."},
	}
}

// Drain makes /readyz report that the process is stopping.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown accepts no more connections, ends streams, waits for the requests in progress
// and closes all connections. If ctx ends first, it cuts them off and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.end()
	s.conns.CloseIdle() // otherwise http.Server waits for connections that have never sent anything
	err := errors.Join(s.http.Shutdown(ctx), s.http.Close())
	sampled := make(chan struct{})
	go func() { // ends with the sampler
		s.sampled.Wait()
		close(sampled)
	}()
	select {
	case <-sampled:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// routes returns the handlers of all paths, which run after the guard.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", requireCommand("info", s.metrics()))
	mux.Handle("GET /denials", sameOrigin(requireCommand("rl.hotkeys", http.HandlerFunc(s.recent)).ServeHTTP))
	mux.Handle("GET /{$}", requireCommand("rl.hotkeys", http.HandlerFunc(page.Serve)))
	mux.Handle("GET /api/stream", sameOrigin(requireCommand("rl.hotkeys", http.HandlerFunc(s.stream)).ServeHTTP))
	mux.Handle("GET /api/key", sameOrigin(requireCommand("rl.inspect", http.HandlerFunc(s.inspect)).ServeHTTP))
	mux.Handle("GET /api/fleet", sameOrigin(requireCommand("rl.hotkeys", http.HandlerFunc(s.fleet)).ServeHTTP))
	mux.Handle("GET /api/policies", sameOrigin(s.policies))
	mux.Handle("POST /api/reset", sameOrigin(requireCommand("rl.reset", http.HandlerFunc(s.reset)).ServeHTTP))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, checkPath) {
			s.check(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
