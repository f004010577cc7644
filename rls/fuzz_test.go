package rls

import (
	"context"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// FuzzRequests checks that any message gets an error, or a status for each descriptor.
func FuzzRequests(f *testing.F) {
	for _, r := range []*ratelimit.RateLimitRequest{
		shop(0, descriptor("user", "1")), shop(9, descriptor("user", "a|%", "path", "/login"), descriptor()), shop(1, descriptor("slide", ""), nil),
		{Domain: "\x00", Descriptors: shop(0, descriptor("", "")).Descriptors},
	} {
		b, err := proto.Marshal(r)
		require.NoError(f, err)
		f.Add(b, false)
		f.Add(b, true)
	}
	s := start(f, Settings{})
	nobody := users(f)
	ctx := peer.NewContext(context.WithValue(f.Context(), userKey{}, nobody.Anonymous()), &peer.Peer{AuthInfo: &link{Conn: stranger(f)}})
	f.Fuzz(func(t *testing.T, b []byte, together bool) {
		r := new(ratelimit.RateLimitRequest)
		if proto.Unmarshal(b, r) != nil {
			return // gRPC refuses it
		}
		s.Set(Settings{ACL: nobody, Together: together, Headers: []string{"a", "b", "c"}})
		got, err := s.ShouldRateLimit(ctx, r)
		if err != nil {
			return
		}
		require.Len(t, got.Statuses, len(r.Descriptors))
		over := false
		for _, st := range got.Statuses {
			require.NotNil(t, st)
			over = over || st.Code == ratelimit.RateLimitResponse_OVER_LIMIT
		}
		require.Equal(t, over, got.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT)
		_, err = proto.Marshal(got)
		require.NoError(t, err)
	})
}
