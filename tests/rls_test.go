package tests

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/rlproxy/rlproxy/internal/freeport"
)

// dialEnvoy connects to rls-port as Envoy does.
func dialEnvoy(t *testing.T, port int, secure credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(port), grpc.WithTransportCredentials(secure))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// envoys asks in the domain shop about descriptors with one key each.
func envoys(pairs ...string) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: "shop"}
	for i := 0; i < len(pairs); i += 2 {
		r.Descriptors = append(r.Descriptors, &descriptors.RateLimitDescriptor{
			Entries: []*descriptors.RateLimitDescriptor_Entry{{Key: pairs[i], Value: pairs[i+1]}},
		})
	}
	return r
}

// TestEnvoyCountsWithRLCHECK asks for the same keys by command and as Envoy does, with each engine, by policies that were
// imported. A reload and RL.POLICY are in force at once.
func TestEnvoyCountsWithRLCHECK(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(startNodes(t, 2)...)} {
		t.Run(name, func(t *testing.T) {
			port, err := freeport.Take()
			require.NoError(t, err)
			conf, log := filepath.Join(t.TempDir(), "rlproxy.conf"), filepath.Join(t.TempDir(), "decisions")
			configure := func(text string) {
				require.NoError(t, os.WriteFile(conf, []byte("policy shop.user FIXED 5 365d\ndecision-log "+log+"\n"+text), 0o600))
			}
			configure("")
			s := startHTTP(t, append(args, "--include", conf, "--rls-port", strconv.Itoa(port))...)
			c := dial(t, s.addr)
			conn := dialEnvoy(t, port, insecure.NewCredentials())
			envoy := ratelimit.NewRateLimitServiceClient(conn)
			for left := int64(4); left >= 0; left-- {
				if left%2 == 0 {
					require.Equal(t, left, c.decide(t, "RL.CHECK shop.user ann").remaining)
					continue
				}
				got, err := envoy.ShouldRateLimit(t.Context(), envoys("user", "ann", "none", "x"))
				require.NoError(t, err)
				require.Equal(t, ratelimit.RateLimitResponse_OK, got.OverallCode)
				require.EqualValues(t, left, got.Statuses[0].LimitRemaining)
				require.EqualValues(t, 5, got.Statuses[0].CurrentLimit.RequestsPerUnit)
				require.Equal(t, ratelimit.RateLimitResponse_RateLimit_YEAR, got.Statuses[0].CurrentLimit.Unit)
				require.Positive(t, got.Statuses[0].DurationUntilReset.GetSeconds())
				require.Empty(t, got.ResponseHeadersToAdd)
			}
			configure("rls-headers x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset\n")
			s.hangup(t, reloaded)
			got, err := envoy.ShouldRateLimit(t.Context(), envoys("user", "ann"))
			require.NoError(t, err)
			require.Equal(t, ratelimit.RateLimitResponse_OVER_LIMIT, got.OverallCode)
			require.Len(t, got.ResponseHeadersToAdd, 3)
			require.Equal(t, "x-ratelimit-limit: 5", got.ResponseHeadersToAdd[0].Key+": "+got.ResponseHeadersToAdd[0].Value)
			c.decide(t, "RL.CHECK shop.user bob")
			eventually(t, "the denial to be logged", func() bool {
				text, err := os.ReadFile(log) // #nosec G304 -- the test's own
				return err == nil && strings.Contains(string(text), `"event":"denial","command":"rl.fixed","policy":"shop.user","result":"denied","key":"shop.user:ann"`)
			})
			_, metrics := s.get(t, "metrics", "")
			require.Contains(t, metrics, `rlproxy_decisions_total{command="rl.fixed",policy="shop.user",result="denied"} 1`)
			require.Contains(t, metrics, "\nrlproxy_rls_connections 1\n")

			_, err = c.Exchange([]any{"RL.POLICY", "SET", "shop.plan", "SLIDE", "1", "1h"})
			require.NoError(t, err)
			got, err = envoy.ShouldRateLimit(t.Context(), envoys("plan", "free"))
			require.NoError(t, err)
			require.Equal(t, ratelimit.RateLimitResponse_RateLimit_HOUR, got.Statuses[0].CurrentLimit.Unit)
		})
	}
}

// TestEnvoyLogsIn asks over TLS, with a name and a password. Then a drain tells it to go.
func TestEnvoyLogsIn(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	require.NoError(t, err)
	secure, err := freeport.Take()
	require.NoError(t, err)
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	p := startProxy(t, "--tls-port", strconv.Itoa(secure), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no",
		"--rls-port", strconv.Itoa(port), "--policy", "shop.user", "FIXED", "5", "1h",
		"--user", "envoy", "on", ">secret", "~shop.user:*", "+rl.check", "--user", "default", "off")
	conn := dialEnvoy(t, port, credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})) // #nosec G402 -- the name is another one
	envoy := ratelimit.NewRateLimitServiceClient(conn)
	_, err = envoy.ShouldRateLimit(t.Context(), envoys("user", "ann"))
	require.Equal(t, codes.Unauthenticated, grpcstatus.Code(err))
	login := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("envoy:secret")))
	got, err := envoy.ShouldRateLimit(login, envoys("user", "ann"))
	require.NoError(t, err)
	require.EqualValues(t, 4, got.Statuses[0].LimitRemaining)
	healthy, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, healthy.Status)

	_, err = ratelimit.NewRateLimitServiceClient(dialEnvoy(t, port, insecure.NewCredentials())).ShouldRateLimit(login, envoys("user", "ann"))
	require.Error(t, err, "without TLS")

	p.stop(t)
	ctx, cancel := context.WithTimeout(login, time.Minute)
	defer cancel()
	_, err = envoy.ShouldRateLimit(ctx, envoys("user", "ann"))
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err))
}
