// Package rls is the server that Envoy asks for decisions: the gRPC service
// envoy.service.ratelimit.v3.RateLimitService, with a health service beside it. It has the same users as the commands,
// and bounds for everything: connections, requests, messages, times.
//
// Reading order: server.go (this file), guard.go (checks of every request), match.go (what a request asks for),
// answer.go (what Envoy is told), health.go.
package rls

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/policies"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/conns"
	"github.com/rlproxy/rlproxy/policy"
)

// MaxConnections is the most connections at the same time.
const MaxConnections = 256

// Bounds of requests and connections.
const (
	maxMessage    = 256 << 10        // bytes of a request; Envoy takes headers of 60 KB, which may be in several values
	maxHeader     = 16 << 10         // bytes
	maxStreams    = 1024             // requests on a connection at the same time
	maxRequests   = 2048             // requests at the same time, from their headers on
	maxProbes     = 4                // requests to the health service on a connection at the same time
	maxRefused    = 100              // refused requests after which a connection is closed
	openTime      = 5 * time.Second  // to complete a TLS handshake and to open the connection
	requestTime   = 5 * time.Second  // from the headers of a request to its answer
	silentTime    = time.Minute      // until a silent client is asked for a sign of life
	leastPingTime = 10 * time.Second // between a client's own pings
	connBuffer    = 8 << 10          // bytes of each of a connection's two buffers
)

// Config configures a Server. All fields are required.
type Config struct {
	Engine   engine.Engine
	Observer *observe.Observer // counts the engine's decisions
	Policies *policy.Catalog   // the named policies in effect

	// Waiting returns why the process cannot decide yet, or "". Several goroutines may call it at once.
	Waiting func() string

	// LoginRefused counts and logs a refused login of a client, which is described by pairs of
	// names and values. Several goroutines may call it at once.
	LoginRefused func(client ...any)

	Logger *slog.Logger
}

// Settings are what can change while the server runs. They are immutable.
type Settings struct {
	ACL       *acl.Users // users and their permissions
	Protected bool       // answer only clients on this machine
	Together  bool       // admit and charge all descriptors of a request, or none

	// Headers are the names of the headers that Envoy is told to add, for the limit, what remains and the seconds until
	// it is reset; empty: none.
	Headers []string
}

// Server answers Envoy. It accepts connections once Serve is called.
type Server struct {
	ratelimit.UnimplementedRateLimitServiceServer
	cfg      Config
	settings atomic.Pointer[Settings]
	grpc     *grpc.Server
	conns    conns.Bound
	logins   *acl.Logins
	decider  *policies.Decider
	requests atomic.Int64 // in progress
	panics   atomic.Int64 // requests that ended with a panic
	draining atomic.Bool  // the process is stopping
	now      func() time.Time
	ending   context.Context // ends with the server
	end      context.CancelFunc
}

// New returns a server with these settings.
func New(cfg Config, settings Settings) *Server {
	s := &Server{
		cfg: cfg, now: time.Now,
		decider: policies.NewDecider(cfg.Engine, cfg.Observer, cfg.Policies, maxRequests),
	}
	s.Set(settings)
	s.conns.SetMax(MaxConnections)
	s.ending, s.end = context.WithCancel(context.Background())
	s.logins = acl.NewLogins(s.ending)
	s.grpc = grpc.NewServer(
		grpc.Creds(opened{}),
		grpc.ConnectionTimeout(openTime),
		grpc.InTapHandle(s.guard),
		grpc.UnaryInterceptor(s.recover),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ReadBufferSize(connBuffer), grpc.WriteBufferSize(connBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: silentTime, Timeout: openTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPingTime, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	ratelimit.RegisterRateLimitServiceServer(s.grpc, s)
	grpc_health_v1.RegisterHealthServer(s.grpc, &healthService{server: s})
	return s
}

// Set replaces the settings for later requests.
func (s *Server) Set(settings Settings) { s.settings.Store(&settings) }

// Serve accepts connections from l until Shutdown, then returns nil. It may be called for several listeners at once.
// secure wraps a listener in one for TLS; it is nil without TLS.
func (s *Server) Serve(l net.Listener, secure func(net.Listener) net.Listener) error {
	bounded := s.conns.Listener(l)
	if secure != nil {
		bounded = secure(bounded)
	}
	if err := s.grpc.Serve(bounded); err != nil && !s.draining.Load() {
		return fmt.Errorf("rls-port: %w", err)
	}
	return nil
}

// Stats returns what metrics show of the server.
func (s *Server) Stats() []engine.Stat {
	open, _ := s.conns.Count()
	return []engine.Stat{
		{Value: int64(open), Metric: "rls_connections", Help: "Connections to rls-port that are open."},
		{Value: s.conns.Refused(), Metric: "rls_connections_refused_total",
			Help: "Connections to rls-port that were refused because there were too many, and rlproxy was working " +
				"for each."},
		{Value: s.requests.Load(), Metric: "rls_requests", Help: "Requests to rls-port that are in progress."},
		{Value: s.panics.Load(), Metric: "rls_panics_total", Help: "Requests to rls-port that ended with a panic."},
	}
}

// Drain has the health service report that the process is stopping.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown accepts no more connections and requests, tells clients so, and waits for the requests in progress. Then it
// closes all connections. If ctx ends first, it cuts them off and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.end()
	stopped := make(chan struct{})
	go func() { // ends when all connections are closed, by Stop at the latest
		s.grpc.GracefulStop()
		close(stopped)
	}()
	const idleGrace = time.Second // for clients to close their connections themselves
	idle := time.NewTimer(idleGrace)
	defer idle.Stop()
	for {
		select {
		case <-stopped:
			return nil
		case <-idle.C:
			s.conns.CloseIdle()
			idle.Reset(idleGrace)
		case <-ctx.Done():
			s.grpc.Stop()
			<-stopped
			return ctx.Err()
		}
	}
}

// recover logs a panic and ends only its request.
func (s *Server) recover(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.panics.Add(1)
			s.cfg.Logger.Error("panic while answering a request", "method", info.FullMethod, "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "internal error")
		}
	}()
	return handler(ctx, request)
}
