package rls

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"

	commands "github.com/rlproxy/rlproxy/commands/ratelimit"
)

// The codes of statuses.
const (
	within = ratelimit.RateLimitResponse_OK
	over   = ratelimit.RateLimitResponse_OVER_LIMIT
)

// ShouldRateLimit implements ratelimit.RateLimitServiceServer.
func (s *Server) ShouldRateLimit(ctx context.Context, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse,
	error) {
	settings := s.settings.Load()
	q, err := s.inquire(userOf(ctx), r)
	if err != nil {
		return nil, err
	}
	if settings.Together {
		if msg := commands.Together(q.Requests); msg != "" {
			return nil, invalid("%s", msg)
		}
	}
	from := linkOf(ctx).RemoteAddr()
	if len(q.Requests) > 0 && !s.decider.Decide(&q.Pipeline, from) {
		return nil, errBusy
	}
	answer, err := q.answer(len(r.Descriptors), s.now())
	if err != nil {
		return nil, err
	}
	if rest := q.rest(); rest != nil && !settings.Together {
		s.decider.Decide(rest, from) // the answer does not depend on it
	}
	answer.ResponseHeadersToAdd = headers(settings.Headers, answer.Statuses)
	return answer, nil
}

// at returns what the request i to the engine is for.
func (q *inquiry) at(i int) *asked {
	if n := q.Requests[i].KeyNumber; n > 0 {
		i = int(n) - 1
	}
	return &q.asked[i]
}

// answer returns the answer about so many descriptors at a time. If a node could not answer and no other descriptor is
// over its limit, it returns the error.
func (q *inquiry) answer(descriptors int, now time.Time) (*ratelimit.RateLimitResponse, error) {
	answer := &ratelimit.RateLimitResponse{
		OverallCode: within, Statuses: make([]*ratelimit.RateLimitResponse_DescriptorStatus, descriptors),
	}
	var failed error
	for i := range q.Requests {
		a := q.at(i)
		st, denied, err := statusOf(&q.Requests[i], &q.Results[i], a, now)
		if err != nil {
			failed, st = err, new(ratelimit.RateLimitResponse_DescriptorStatus)
		}
		if denied {
			answer.OverallCode = over
		}
		if at := &answer.Statuses[a.descriptor]; *at == nil || wins(st, *at) {
			*at = st
		}
	}
	if failed != nil && answer.OverallCode != over {
		return nil, status.Error(codes.Unavailable, failed.Error())
	}
	for i, st := range answer.Statuses {
		if st == nil { // it has no policy
			answer.Statuses[i] = &ratelimit.RateLimitResponse_DescriptorStatus{Code: within}
		}
	}
	return answer, nil
}

// wins reports whether a status says more about a descriptor than the one of its other policy.
func wins(st, other *ratelimit.RateLimitResponse_DescriptorStatus) bool {
	if st.Code != other.Code {
		return st.Code == over
	}
	return st.CurrentLimit != nil && (other.CurrentLimit == nil || st.LimitRemaining < other.LimitRemaining)
}

// statusOf returns the status of a descriptor by one policy, and whether that denies the whole request.
func statusOf(r *engine.Request, res *engine.Result, a *asked, now time.Time) (
	st *ratelimit.RateLimitResponse_DescriptorStatus, denied bool, err error) {
	d, err := commands.Answer(r, res)
	if err != nil {
		return nil, false, err
	}
	st = &ratelimit.RateLimitResponse_DescriptorStatus{Code: within}
	if r.Verdict == engine.Unlimited {
		st.LimitRemaining = math.MaxUint32
		return st, false, nil
	}
	full := d.RetryAfter > 0 || a.hits > uint64(a.least) // #nosec G115 -- it is not negative
	if denied = !r.Shadow && (!d.Allowed || full); denied && full {
		st.Code = over
	}
	wait := cmp.Or(d.RetryAfter, d.ResetAfter)
	if d.Remaining >= 0 && r.Verdict != engine.Unasked { // otherwise a FAIL policy answered, or nothing was asked
		var window limit.Window // of a key that is blocked
		if d.Window < r.N {
			window = r.Windows[d.Window]
		}
		if wait == 0 && r.Kind == limit.Fixed && window.Length > 0 { // nothing is used, and yet the window ends
			wait = window.EndsAt(now.UnixMilli()) - now.UnixMilli()
		}
		st.CurrentLimit = currentLimit(window)
		if !full {
			st.LimitRemaining = uint32(min(d.Remaining, math.MaxUint32)) // #nosec G115 -- it is not negative
		}
	}
	if wait > 0 {
		st.DurationUntilReset = &durationpb.Duration{Seconds: (wait + second - 1) / second}
	}
	return st, denied, nil
}

// currentLimit returns a window in Envoy's units. One that is not in whole seconds has no unit. A key that is blocked
// has none, which is a limit of 0 a second.
func currentLimit(w limit.Window) *ratelimit.RateLimitResponse_RateLimit {
	l := &ratelimit.RateLimitResponse_RateLimit{
		RequestsPerUnit: uint32(min(w.Limit, math.MaxUint32)), // #nosec G115 -- it is not negative
	}
	if w.Length == 0 {
		w.Length = second
	}
	period, _ := w.Calendar()
	for _, u := range units {
		if period != "" && strings.EqualFold(u.unit.String(), period) {
			l.Unit = u.unit
			break
		}
		if period == "" && w.Length%u.length == 0 {
			l.Unit = u.unit
			if n := w.Length / u.length; n > 1 {
				l.UnitMultiplier = wrapperspb.UInt32(uint32(n)) // #nosec G115 -- at most the seconds of 366 days
			}
			break
		}
	}
	return l
}

// rest returns requests that use up what is left where a descriptor's hits were more than that; nil if there is
// nothing. Envoy's own service counts hits that it denies, so that later ones are denied, too: it may have learned of
// them after the fact.
func (q *inquiry) rest() *engine.Pipeline {
	var rest *engine.Pipeline
	for i := range q.Requests {
		r, d := &q.Requests[i], &q.Results[i].Decision
		if q.Results[i].Err != nil || d.Allowed || r.N == 0 || r.Cost < 2 || d.Remaining < 1 {
			continue
		}
		if rest == nil {
			rest = new(engine.Pipeline)
		}
		again := rest.Add()
		*again = *r
		again.Cost = min(d.Remaining, r.Cost)
	}
	return rest
}

// headers returns the headers with these names about the descriptor that is closest to its limit, or that is over it.
func headers(names []string, statuses []*ratelimit.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	var closest *ratelimit.RateLimitResponse_DescriptorStatus
	for _, st := range statuses {
		switch {
		case len(names) == 0 || st.CurrentLimit == nil:
		case st.Code == over || closest == nil || closest.Code != over && st.LimitRemaining < closest.LimitRemaining:
			closest = st
		}
	}
	if closest == nil {
		return nil
	}
	return []*core.HeaderValue{
		{Key: names[0], Value: strconv.FormatUint(uint64(closest.CurrentLimit.RequestsPerUnit), 10)},
		{Key: names[1], Value: strconv.FormatUint(uint64(closest.LimitRemaining), 10)},
		{Key: names[2], Value: strconv.FormatInt(closest.DurationUntilReset.GetSeconds(), 10)},
	}
}
