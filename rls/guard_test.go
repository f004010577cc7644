package rls

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rlproxy/rlproxy/engine"
)

// patience is how long a condition may take on a busy machine.
const patience = time.Minute

func TestUsersNeedTheRightToCheckTheKey(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{ACL: users(t, "default off", "envoy on >secret ~shop.user:* +rl.check", "none on >secret ~* +ping", "gone off >secret +@all")})
	c := s.client(t)
	ask := func(ctx context.Context, r *ratelimit.RateLimitRequest) codes.Code {
		_, err := c.ShouldRateLimit(ctx, r)
		return status.Code(err)
	}
	user := shop(0, descriptor("user", "1"))
	for login, want := range map[string]codes.Code{
		"envoy:secret": codes.OK, "none:secret": codes.PermissionDenied, "envoy:wrong": codes.Unauthenticated,
		"gone:secret": codes.Unauthenticated, ":secret": codes.Unauthenticated,
	} {
		require.Equal(t, want, ask(as(t, login), user), login)
	}
	require.EqualValues(t, 3, s.refused.Load())
	require.Equal(t, codes.PermissionDenied, ask(as(t, "envoy:secret"), shop(0, descriptor("user", "1"), descriptor("plan", "1"))))
	require.Equal(t, codes.Unauthenticated, ask(t.Context(), user))
	for _, header := range []string{"", "Bearer x", "Basic", "Basic !", "Basic " + base64.StdEncoding.EncodeToString([]byte("envoy"))} {
		require.Equal(t, codes.Unauthenticated, ask(metadata.AppendToOutgoingContext(t.Context(), "authorization", header), user), header)
	}
	require.Equal(t, codes.Unauthenticated, ask(metadata.AppendToOutgoingContext(as(t, "envoy:secret"), "authorization", "Basic x"), user))
	s.Set(Settings{ACL: users(t)})
	require.Equal(t, codes.OK, ask(t.Context(), shop(0, descriptor("plan", "1"))))
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t, Settings{}).client(t)
	many, long, negative, override := shop(0), descriptor(), descriptor("user", "1"), descriptor("user", "1")
	for range maxDescriptors + 1 {
		many.Descriptors = append(many.Descriptors, descriptor("user", "1"))
	}
	for range maxEntries + 1 {
		long.Entries = append(long.Entries, descriptor("k", "v").Entries...)
	}
	negative.IsNegativeHits = true
	override.Limit = brings(1, 0)
	years := descriptor("user", "1")
	years.Limit = brings(1, 6)
	years.Limit.UnitMultiplier = multiplier(2)
	never := descriptor("user", "1")
	never.Limit = brings(1, 1)
	never.Limit.UnitMultiplier = multiplier(0)
	for want, r := range map[string]*ratelimit.RateLimitRequest{
		"rate limit domain must not be empty":          {Descriptors: shop(0, descriptor("user", "1")).Descriptors},
		"rate limit descriptor list must not be empty": shop(0),
		"at most 64 descriptors":                       many,
		"at most 16 entries in a descriptor":           shop(0, descriptor("user", "1"), long),
		"hits cannot be given back":                    shop(1, negative),
		"a limit needs a unit, and":                    shop(1, override),
		"a window of at most 366 days":                 shop(1, years),
		"and a window of at most":                      shop(1, never),
	} {
		_, err := c.ShouldRateLimit(t.Context(), r)
		require.Equal(t, codes.InvalidArgument, status.Code(err), want)
		require.ErrorContains(t, err, want)
	}
	_, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", strings.Repeat("x", maxMessage))))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = c.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 2*maxHeader)), shop(0, descriptor("user", "1")))
	require.Error(t, err)
	got, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.NoError(t, err, "nothing was charged, and the service goes on")
	require.Equal(t, "OK; OK 3/MINUTE 2 43", told(got))
}

// raw opens a stream on a connection, with the given headers in place of a login, and sends no message.
func (s *service) raw(t *testing.T, method string) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := s.dial(t).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
	require.NoError(t, err)
	return stream
}

const ask = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// A client that does not send its message loses its place after requestTime.
func TestSlowRequestsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{})
	for _, method := range []string{ask, "/none/None", "/grpc.health.v1.Health/Check"} {
		stream := s.raw(t, method)
		began := time.Now()
		require.Error(t, stream.RecvMsg(new(ratelimit.RateLimitResponse)), method)
		require.Less(t, time.Since(began), patience)
	}
	require.Eventually(t, func() bool { return s.requests.Load() == 0 }, patience, time.Millisecond)
	_, idle := s.conns.Count()
	require.Equal(t, 3, idle)
}

// A connection with many refused requests is closed, because each of them takes memory.
func TestManyRefusalsCloseTheConnection(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{ACL: users(t, "default on >secret ~* +@all")})
	var closed sync.WaitGroup
	closed.Add(1)
	one := sync.OnceFunc(closed.Done)
	c, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecureWith(one)))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for range maxRefused {
		_, err := ratelimit.NewRateLimitServiceClient(c).ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
		require.Error(t, err)
	}
	closed.Wait()
}

func TestProtectedModeAnswersOnlyThisMachine(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{ACL: users(t), Protected: true})
	_, err := s.client(t).ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.NoError(t, err)
	_, err = s.identify(&link{Conn: stranger(t)}, nil)
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	s.Set(Settings{ACL: users(t)})
	_, err = s.identify(&link{Conn: stranger(t)}, nil)
	require.NoError(t, err)
}

func TestGuessesAreSlow(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{ACL: users(t, "default on >secret ~* +@all")})
	kept := s.client(t)
	_, err := kept.ShouldRateLimit(as(t, ":secret"), shop(0, descriptor("user", "1")))
	require.NoError(t, err)
	s.logins.Delay = time.Hour // until the server is shut down
	for range 5 {
		c := s.client(t)
		go func() { _, _ = c.ShouldRateLimit(as(t, ":guess"), shop(0, descriptor("user", "1"))) }() // until the shutdown
	}
	require.Eventually(t, func() bool { return s.logins.Busy("127.0.0.1") }, patience, time.Millisecond)
	_, err = s.client(t).ShouldRateLimit(as(t, ":secret"), shop(0, descriptor("user", "1")))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = kept.ShouldRateLimit(as(t, ":secret"), shop(0, descriptor("user", "1")))
	require.NoError(t, err, "a connection that has logged in")
}

// While the engine keeps a connection's requests, other connections are answered; above maxRequests they are refused.
func TestRequestsInProgressAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{})
	release := make(chan struct{})
	wait := func(p *engine.Pipeline) bool {
		if p.Requests[0].Policy == "shop.plan" {
			<-release
		}
		return false
	}
	s.engine.before.Store(&wait)
	var waiting sync.WaitGroup
	for range 2 {
		c := s.client(t)
		for range maxStreams {
			waiting.Go(func() {
				if _, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("plan", "1"))); err != nil {
					t.Error(err)
				}
			})
		}
	}
	require.Eventually(t, func() bool { return s.requests.Load() == maxRequests }, patience, time.Millisecond)
	c := s.client(t)
	_, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	healthy := grpc_health_v1.NewHealthClient(s.dial(t))
	_, err = healthy.Check(t.Context(), new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err, "probes have places of their own")
	close(release)
	waiting.Wait()
	require.Eventually(t, func() bool { return s.requests.Load() == 0 }, patience, time.Millisecond)
	_, err = c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.NoError(t, err)
}

// Connections that send nothing, or nonsense, make room for others.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{})
	for i := range MaxConnections + 20 {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		_, err = io.WriteString(c, []string{"", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"}[i%3])
		require.NoError(t, errors.Join(err))
	}
	_, err := s.client(t).ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.NoError(t, err)
	open, _ := s.conns.Count()
	require.LessOrEqual(t, open, MaxConnections)
	require.Zero(t, s.conns.Refused())
}

// A message that is small when it is compressed may be large; rlproxy takes none.
func TestNoMessageIsDecompressed(t *testing.T) { require.Nil(t, encoding.GetCompressor("gzip")) }

func TestHealthSaysWhetherTheServiceCanDecide(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{ACL: users(t, "default on >secret ~* +@all"), Protected: true})
	c := grpc_health_v1.NewHealthClient(s.dial(t))
	check := func(service string) (string, codes.Code) {
		r, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		return r.GetStatus().String(), status.Code(err)
	}
	for service, want := range map[string]codes.Code{"": codes.OK, "envoy.service.ratelimit.v3.RateLimitService": codes.OK, "x": codes.NotFound} {
		got, code := check(service)
		require.Equal(t, want, code, service)
		require.Equal(t, code == codes.OK, got == "SERVING")
	}
	waiting := "policies have not been read yet"
	s.waiting.Store(&waiting)
	got, _ := check("")
	require.Equal(t, "NOT_SERVING", got)
	waiting = ""
	got, _ = check("")
	require.Equal(t, "SERVING", got)
	s.Drain()
	got, _ = check("")
	require.Equal(t, "NOT_SERVING", got)
	watch, err := c.Watch(t.Context(), new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err)
	_, err = watch.Recv()
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

// A shutdown answers what is in progress, closes idle connections, and cuts off what does not end in time.
func TestShutdownAnswersWhatIsInProgress(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"answered": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Settings{})
			silent, err := net.Dial("tcp", s.addr)
			require.NoError(t, err)
			defer func() { _ = silent.Close() }()
			release, began := make(chan struct{}), make(chan struct{})
			wait := func(*engine.Pipeline) bool {
				close(began)
				<-release
				return false
			}
			s.engine.before.Store(&wait)
			errs := make(chan error, 1)
			c := s.client(t)
			go func() { // ends with the server
				_, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
				errs <- err
			}()
			<-began
			within, stopped := 100*time.Millisecond, make(chan error, 1)
			if answered {
				within = patience
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			go func() { stopped <- s.Shutdown(ctx) }() // ends with ctx
			if answered {
				close(release)
				require.NoError(t, <-errs)
				require.NoError(t, <-stopped)
				return
			}
			<-ctx.Done()
			require.Error(t, <-errs)
			close(release)
			require.ErrorIs(t, <-stopped, context.DeadlineExceeded)
		})
	}
}
