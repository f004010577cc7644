package rls

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/conns"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/policy"
)

// now is the time of the engines: 17 s after the begin of an hour.
const now = 1_800_000_017_250

// gate is an engine that a test can make fail, panic or wait.
type gate struct {
	*memory.Engine
	before atomic.Pointer[func(p *engine.Pipeline) bool] // reports whether it has answered
}

func (g *gate) Do(p *engine.Pipeline) {
	if before := g.before.Load(); before != nil && (*before)(p) {
		return
	}
	g.Engine.Do(p)
}

// service is a Server that belongs to one test.
type service struct {
	*Server
	engine  *gate
	addr    string
	refused atomic.Int64
	waiting atomic.Pointer[string]
	log     *proxytest.LockedBuffer
	served  sync.WaitGroup
}

// users parses lines of a configuration.
func users(t testing.TB, lines ...string) *acl.Users {
	t.Helper()
	var words [][]string
	for _, l := range lines {
		words = append(words, strings.Fields(l))
	}
	list, err := commands.NewACL(words, "")
	require.NoError(t, err)
	return list
}

// start serves shopPolicies on 127.0.0.1 until the test ends.
func start(t testing.TB, settings Settings) *service {
	t.Helper()
	set, err := policy.Parse(shopPolicies)
	require.NoError(t, err)
	catalog := new(policy.Catalog)
	catalog.Configure(set)
	s := &service{
		engine: &gate{Engine: memory.New(memory.Config{Now: func() time.Time { return time.UnixMilli(now) }})},
		log:    &proxytest.LockedBuffer{},
	}
	nothing := ""
	s.waiting.Store(&nothing)
	if settings.ACL == nil {
		settings.ACL = users(t)
	}
	s.Server = New(Config{
		Engine: s.engine, Observer: observe.New(observe.Config{Engine: s.engine}), Policies: catalog,
		Waiting:      func() string { return *s.waiting.Load() },
		LoginRefused: func(...any) { s.refused.Add(1) },
		Logger:       slog.New(slog.NewTextHandler(s.log, nil)),
	}, settings)
	s.now = func() time.Time { return time.UnixMilli(now) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	s.served.Go(func() {
		if err := s.Serve(l, nil); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx) // a test may leave requests
		s.served.Wait()
	})
	return s
}

// dial returns a connection to the service.
func (s *service) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// client returns a client of the service.
func (s *service) client(t testing.TB) ratelimit.RateLimitServiceClient {
	return ratelimit.NewRateLimitServiceClient(s.dial(t))
}

// as returns a context for the requests of a user, in the form name:password.
func as(t testing.TB, user string) context.Context {
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte(user))
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", login)
}

// descriptor returns one with keys and values in turns.
func descriptor(words ...string) *descriptors.RateLimitDescriptor {
	d := new(descriptors.RateLimitDescriptor)
	for i := 0; i < len(words); i += 2 {
		d.Entries = append(d.Entries, &descriptors.RateLimitDescriptor_Entry{Key: words[i], Value: words[i+1]})
	}
	return d
}

// shop returns a request of the domain shop.
func shop(hits uint32, all ...*descriptors.RateLimitDescriptor) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: all, HitsAddend: hits}
}

// brings returns a limit that a descriptor brings, with the number of its unit.
func brings(n uint32, unit envoytype.RateLimitUnit) *descriptors.RateLimitDescriptor_RateLimitOverride {
	return &descriptors.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
}

func multiplier(n uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(n) }

// stranger returns a connection of a client on another machine.
func stranger(t testing.TB) *conns.Conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { require.NoError(t, errors.Join(here.Close(), there.Close())) })
	bound := new(conns.Bound)
	bound.SetMax(1)
	nc, err := bound.Listener(one{here}).Accept()
	require.NoError(t, err)
	return conns.Of(nc)
}

// one is a listener with one connection, from another machine.
type one struct{ net.Conn }

func (o one) Accept() (net.Conn, error) { return far(o), nil }
func (o one) Addr() net.Addr            { return o.LocalAddr() }

type far struct{ net.Conn }

func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// plain is the credentials of a client that call closed when a connection is closed.
type plain struct {
	credentials.TransportCredentials
	closed func()
}

func insecureWith(closed func()) credentials.TransportCredentials {
	return plain{insecure.NewCredentials(), closed}
}

func (p plain) Clone() credentials.TransportCredentials { return p }

func (p plain) ClientHandshake(_ context.Context, _ string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return watched{nc, p.closed}, nil, nil
}

// watched calls closed when the other side has closed the connection.
type watched struct {
	net.Conn
	closed func()
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.closed()
	}
	return n, err
}
