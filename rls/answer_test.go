package rls

import (
	"fmt"
	"math"
	"strings"
	"testing"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlproxy/rlproxy/engine"
)

// told returns an answer in short: the code, and for each descriptor its code, limit, what remains and the seconds until
// it is reset.
func told(r *ratelimit.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(r.OverallCode.String())
	for _, st := range r.Statuses {
		fmt.Fprintf(&b, "; %v", st.Code)
		if l := st.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %d/%v", l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				fmt.Fprintf(&b, "x%d", l.UnitMultiplier.Value)
			}
		}
		fmt.Fprintf(&b, " %d %d", st.LimitRemaining, st.DurationUntilReset.GetSeconds())
	}
	for _, h := range r.ResponseHeadersToAdd {
		fmt.Fprintf(&b, "; %s=%s", h.Key, h.Value)
	}
	return b.String()
}

const shopPolicies = `policy shop.user FIXED 3 1m
policy-override shop.user vip UNLIMITED
policy-override shop.user out BLOCKED
policy-override shop.user big* 5 2h
policy shop.user.path FIXED 1000000000000 1s ORDER 2,1
policy-override shop.user.path * UNLIMITED
policy-override shop.user.path /login|* 2 1h
policy shop.plan FIXED 1 1d
policy-override shop.plan trial UNLIMITED
policy shop.plan.shadow FIXED 9 1d SHADOW
policy-override shop.plan.shadow * UNLIMITED
policy-override shop.plan.shadow trial 1 1d
policy shop.two FIXED 2 1s 3 1h
policy shop.slide SLIDE 2 1500ms
policy shop.month FIXED 2 30d
policy shop.bill FIXED 2 month
policy shop.night FIXED 2 day TZ Asia/Kolkata
policy shop.shadow FIXED 2 1h SHADOW
`

func TestAnswersAreThoseOfEnvoysProtocol(t *testing.T) {
	t.Parallel()
	hits := func(d *descriptors.RateLimitDescriptor, n uint64) *descriptors.RateLimitDescriptor {
		d.HitsAddend = wrapperspb.UInt64(n)
		return d
	}
	brings := func(d *descriptors.RateLimitDescriptor, n uint32, unit envoytype.RateLimitUnit) *descriptors.RateLimitDescriptor {
		d.Limit = &descriptors.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		return d
	}
	times := func(d *descriptors.RateLimitDescriptor, n uint32) *descriptors.RateLimitDescriptor {
		d.Limit.UnitMultiplier = wrapperspb.UInt32(n)
		return d
	}
	c := start(t, Settings{}).client(t)
	for i, step := range []struct {
		request *ratelimit.RateLimitRequest
		want    string
	}{
		{shop(0, descriptor("user", "1")), "OK; OK 3/MINUTE 2 43"},
		{shop(2, descriptor("user", "1")), "OK; OK 3/MINUTE 0 43"},
		{shop(0, descriptor("user", "1")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(0, descriptor("user", "2")), "OK; OK 3/MINUTE 2 43"},

		// what is denied is counted, like all hits of Envoy's own service
		{shop(3, descriptor("user", "2")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(1, descriptor("user", "2")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(4, descriptor("user", "3")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(1, descriptor("user", "3")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(math.MaxUint32, descriptor("user", "4")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},

		{shop(9, hits(descriptor("user", "5"), 0)), "OK; OK 3/MINUTE 3 43"},
		{shop(9, hits(descriptor("user", "5"), 3)), "OK; OK 3/MINUTE 0 43"},
		{shop(9, hits(descriptor("user", "5"), 0)), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(9, hits(descriptor("user", "6"), math.MaxUint64)), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},

		{shop(0, descriptor("user", "vip")), "OK; OK 4294967295 0"},
		{shop(0, descriptor("user", "out")), "OVER_LIMIT; OVER_LIMIT 0/SECOND 0 1"},
		{shop(0, descriptor("user", "bigger")), "OK; OK 5/HOURx2 4 7183"},
		{shop(0, descriptor("user", "")), "OK; OK 3/MINUTE 2 43"},
		{shop(0, descriptor("user", strings.Repeat("long", 9000))), "OK; OK 3/MINUTE 2 43"},

		{shop(0, descriptor("user", "a", "path", "/login")), "OK; OK 2/HOUR 1 3583"},
		{shop(0, descriptor("user", "a", "path", "/login")), "OK; OK 2/HOUR 0 3583"},
		{shop(0, descriptor("user", "a", "path", "/login")), "OVER_LIMIT; OVER_LIMIT 2/HOUR 0 3583"},
		{shop(0, descriptor("user", "b", "path", "/login")), "OK; OK 2/HOUR 1 3583"},
		{shop(0, descriptor("user", "a", "path", "/")), "OK; OK 4294967295 0"},
		{shop(0, descriptor("path", "/login", "user", "a")), "OK; OK 0 0"},
		{shop(0, descriptor("path", "/login")), "OK; OK 0 0"},
		{&ratelimit.RateLimitRequest{Domain: "other", Descriptors: shop(0, descriptor("user", "1")).Descriptors}, "OK; OK 0 0"},
		{shop(0, descriptor()), "OK; OK 0 0"},

		{shop(0, descriptor("plan", "pro")), "OK; OK 1/DAY 0 57583"},
		{shop(0, descriptor("plan", "pro")), "OVER_LIMIT; OVER_LIMIT 1/DAY 0 57583"},
		{shop(0, descriptor("plan", "trial")), "OK; OK 1/DAY 0 57583"},
		{shop(0, descriptor("plan", "trial")), "OK; OK 1/DAY 0 57583"},
		{shop(0, descriptor("two", "1")), "OK; OK 2/SECOND 1 1"},
		{shop(0, descriptor("two", "1")), "OK; OK 2/SECOND 0 1"},
		{shop(0, descriptor("slide", "1")), "OK; OK 2/UNKNOWN 1 2"},
		{shop(2, descriptor("slide", "1")), "OVER_LIMIT; OVER_LIMIT 2/UNKNOWN 0 2"},
		{shop(0, descriptor("month", "1")), "OK; OK 2/MONTH 1 1439983"},
		{shop(0, descriptor("bill", "1")), "OK; OK 2/MONTH 1 1439983"},
		{shop(1, descriptor("bill", "1")), "OK; OK 2/MONTH 0 1439983"},
		{shop(0, descriptor("bill", "1")), "OVER_LIMIT; OVER_LIMIT 2/MONTH 0 1439983"},
		{shop(0, descriptor("night", "1")), "OK; OK 2/DAY 1 37783"},
		{shop(9, descriptor("shadow", "1")), "OK; OK 2/HOUR 0 3583"},
		{shop(1, descriptor("shadow", "1")), "OK; OK 2/HOUR 0 3583"},

		// each descriptor is counted by itself
		{shop(0, descriptor("user", "7"), descriptor("user", "1"), descriptor("none", "1")), "OVER_LIMIT; OK 3/MINUTE 2 43; OVER_LIMIT 3/MINUTE 0 43; OK 0 0"},
		{shop(0, descriptor("user", "7"), descriptor("user", "7")), "OK; OK 3/MINUTE 1 43; OK 3/MINUTE 0 43"},

		{shop(0, brings(descriptor("user", "8"), 1, envoytype.RateLimitUnit_MINUTE)), "OK; OK 1/MINUTE 0 43"},
		{shop(0, descriptor("user", "8")), "OK; OK 3/MINUTE 1 43"},
		{shop(0, brings(descriptor("user", "8"), 1, envoytype.RateLimitUnit_MINUTE)), "OVER_LIMIT; OVER_LIMIT 1/MINUTE 0 43"},
		{shop(0, brings(descriptor("new", "8"), 1, envoytype.RateLimitUnit_YEAR)), "OK; OK 1/YEAR 0 29087983"},
		{shop(0, times(brings(descriptor("new", "8"), 2, envoytype.RateLimitUnit_HOUR), 3)), "OK; OK 2/HOURx3 1 3583"},
		{shop(0, brings(descriptor("new", "9"), 0, envoytype.RateLimitUnit_HOUR)), "OVER_LIMIT; OVER_LIMIT 0/SECOND 0 1"},
	} {
		got, err := c.ShouldRateLimit(t.Context(), step.request)
		require.NoError(t, err, "%d: %v", i, step.request)
		require.Equal(t, step.want, told(got), "%d: %.200v", i, step.request)
	}
}

func TestHeadersAreThoseOfTheDescriptorClosestToItsLimit(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{ACL: users(t), Headers: []string{"L", "R", "T"}})
	c := s.client(t)
	for _, step := range []struct{ want string }{
		{"OK; OK 3/MINUTE 2 43; OK 2/HOUR 1 3583; OK 0 0; L=2; R=1; T=3583"},
		{"OK; OK 3/MINUTE 1 43; OK 2/HOUR 0 3583; OK 0 0; L=2; R=0; T=3583"},
		{"OVER_LIMIT; OK 3/MINUTE 0 43; OVER_LIMIT 2/HOUR 0 3583; OK 0 0; L=2; R=0; T=3583"},
		{"OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43; OVER_LIMIT 2/HOUR 0 3583; OK 0 0; L=2; R=0; T=3583"},
	} {
		got, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1"), descriptor("user", "1", "path", "/login"), descriptor("none", "1")))
		require.NoError(t, err)
		require.Equal(t, step.want, told(got))
	}
	got, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("none", "1"), descriptor("user", "vip")))
	require.NoError(t, err)
	require.Equal(t, "OK; OK 0 0; OK 4294967295 0", told(got))
	s.Set(Settings{ACL: users(t)})
	got, err = c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "2")))
	require.NoError(t, err)
	require.Empty(t, got.ResponseHeadersToAdd)
}

func TestDescriptorsAreChargedTogetherIfThatIsSet(t *testing.T) {
	t.Parallel()
	c := start(t, Settings{Together: true}).client(t)
	both := func(user, plan string) *ratelimit.RateLimitRequest {
		return shop(0, descriptor("none", "1"), descriptor("user", user), descriptor("plan", plan))
	}
	for _, step := range []struct {
		request *ratelimit.RateLimitRequest
		want    string
	}{
		{both("1", "a"), "OK; OK 0 0; OK 3/MINUTE 2 43; OK 1/DAY 0 57583"},
		{both("1", "a"), "OVER_LIMIT; OK 0 0; OK 3/MINUTE 2 43; OVER_LIMIT 1/DAY 0 57583"},
		{both("1", "a"), "OVER_LIMIT; OK 0 0; OK 3/MINUTE 2 43; OVER_LIMIT 1/DAY 0 57583"},
		{both("1", "trial"), "OK; OK 0 0; OK 3/MINUTE 1 43; OK 1/DAY 0 57583"},
		{both("vip", "b"), "OK; OK 0 0; OK 4294967295 0; OK 1/DAY 0 57583"},
		{both("out", "c"), "OVER_LIMIT; OK 0 0; OVER_LIMIT 0/SECOND 0 1; OK 0 0"},
		{both("2", "c"), "OK; OK 0 0; OK 3/MINUTE 2 43; OK 1/DAY 0 57583"},
		{shop(2, descriptor("user", "1")), "OVER_LIMIT; OVER_LIMIT 3/MINUTE 0 43"},
		{shop(1, descriptor("user", "1")), "OK; OK 3/MINUTE 0 43"},
	} {
		got, err := c.ShouldRateLimit(t.Context(), step.request)
		require.NoError(t, err)
		require.Equal(t, step.want, told(got), "%v", step.request)
	}
	_, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "9"), descriptor("user", "9")))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "is given twice")
	many := shop(0)
	for i := range 9 {
		many.Descriptors = append(many.Descriptors, descriptor("user", fmt.Sprint(i)))
	}
	_, err = c.ShouldRateLimit(t.Context(), many)
	require.ErrorContains(t, err, "at most 8")
}

// A node that does not answer is an error, unless its FAIL policy answers or another descriptor is over its limit.
func TestFailPoliciesAnswerForANode(t *testing.T) {
	t.Parallel()
	s := start(t, Settings{})
	c := s.client(t)
	fail := func(p *engine.Pipeline) bool {
		p.Grow()
		for i := range p.Requests {
			r, res := &p.Requests[i], &p.Results[i]
			switch {
			case r.AnswerVerdict(res):
			case strings.HasPrefix(string(r.Key), "shop:user") || r.Policy == "shop.user":
				res.Err = &engine.Unavailable{Node: "10.0.0.1:6379", Why: "timeout"}
			default:
				kind := map[string]engine.FailPolicy{"shop.plan": engine.FailClosed, "shop.month": engine.FailOpen}[r.Policy]
				res.Decision, res.Fail = kind.Decide(r, 0), kind
			}
		}
		return true
	}
	s.engine.before.Store(&fail)
	_, err := c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1"), descriptor("month", "1")))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "UNAVAILABLE 10.0.0.1:6379: timeout")
	got, err := c.ShouldRateLimit(t.Context(), shop(5, descriptor("month", "1")))
	require.NoError(t, err)
	require.Equal(t, "OVER_LIMIT; OVER_LIMIT 0 0", told(got), "that can never be admitted")
	got, err = c.ShouldRateLimit(t.Context(), shop(1, descriptor("month", "1")))
	require.NoError(t, err)
	require.Equal(t, "OK; OK 0 0", told(got))
	got, err = c.ShouldRateLimit(t.Context(), shop(1, descriptor("user", "1"), descriptor("plan", "1")))
	require.NoError(t, err)
	require.Regexp(t, `^OVER_LIMIT; UNKNOWN 0 0; OVER_LIMIT 0 \d+$`, told(got))

	explode := func(*engine.Pipeline) bool { panic("boom") }
	s.engine.before.Store(&explode)
	_, err = c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.Equal(t, codes.Internal, status.Code(err))
	require.Contains(t, s.log.String(), "boom")
	require.EqualValues(t, 1, s.panics.Load())
	s.engine.before.Store(nil)
	_, err = c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.NoError(t, err)

	s.cfg.Policies.SetUnknown(&engine.Unavailable{Node: "a:1", Why: "policies have not been read yet"})
	_, err = c.ShouldRateLimit(t.Context(), shop(0, descriptor("none", "1")))
	require.Equal(t, codes.Unavailable, status.Code(err))
	_, err = c.ShouldRateLimit(t.Context(), shop(0, descriptor("user", "1")))
	require.NoError(t, err, "policies of the configuration are known")
}
