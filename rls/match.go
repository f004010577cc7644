package rls

import (
	"fmt"
	"math"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/policy/envoy"
)

// Bounds of a request's lists. No descriptor of a configuration is longer.
const (
	maxDescriptors = 64
	maxEntries     = policy.MaxValues
)

const (
	second = 1000 // in ms
	day    = 24 * 3600 * second
)

// units are the units of Envoy with their lengths in ms, the longest first. Its month has 30 days, and its year 365.
var units = []struct {
	unit   ratelimit.RateLimitResponse_RateLimit_Unit
	length int64
}{
	{ratelimit.RateLimitResponse_RateLimit_YEAR, 365 * day}, {ratelimit.RateLimitResponse_RateLimit_MONTH, 30 * day},
	{ratelimit.RateLimitResponse_RateLimit_WEEK, 7 * day}, {ratelimit.RateLimitResponse_RateLimit_DAY, day},
	{ratelimit.RateLimitResponse_RateLimit_HOUR, 3600 * second},
	{ratelimit.RateLimitResponse_RateLimit_MINUTE, 60 * second},
	{ratelimit.RateLimitResponse_RateLimit_SECOND, second},
}

// inquiry is a request of Envoy as requests to the engine.
type inquiry struct {
	engine.Pipeline
	asked []asked // by request, in the order in which they were added
}

// asked says what a request to the engine is for.
type asked struct {
	descriptor int    // index of the descriptor
	hits       uint64 // its hits_addend
	least      int64  // the least limit of the request: it can never admit more; 0 if it has none
}

// inquire translates a request of Envoy. The error is one of gRPC.
func (s *Server) inquire(u *acl.User, r *ratelimit.RateLimitRequest) (*inquiry, error) {
	switch {
	case r.Domain == "":
		return nil, invalid("rate limit domain must not be empty")
	case len(r.Descriptors) == 0:
		return nil, invalid("rate limit descriptor list must not be empty")
	case len(r.Descriptors) > maxDescriptors:
		return nil, invalid("at most %d descriptors", maxDescriptors)
	}
	q := new(inquiry)
	for i, d := range r.Descriptors {
		hits := uint64(max(1, r.HitsAddend))
		if d.HitsAddend != nil {
			hits = d.HitsAddend.Value
		}
		if d.IsNegativeHits && hits > 0 {
			return nil, invalid("is_negative_hits: hits cannot be given back")
		}
		if err := s.addDescriptor(q, u, r.Domain, d, asked{descriptor: i, hits: hits}); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// addDescriptor adds the requests for a descriptor: one for each of its policies, or one for the limit that it brings.
func (s *Server) addDescriptor(q *inquiry, u *acl.User, domain string, d *descriptors.RateLimitDescriptor,
	a asked) error {
	if len(d.Entries) > maxEntries {
		return invalid("at most %d entries in a descriptor", maxEntries)
	}
	keys, values := make([]string, len(d.Entries)), make([]string, len(d.Entries))
	for i, e := range d.Entries {
		keys[i], values[i] = e.Key, e.Value
	}
	names := envoy.Names(domain, keys)
	if d.Limit != nil {
		p, err := brought(names[0], d.Limit)
		if err != nil {
			return err
		}
		if configured := s.cfg.Policies.Find([]byte(p.Name)); configured != nil {
			p.Fail, p.Order = configured.Fail, configured.Order
		}
		return s.add(q, u, p, values, a)
	}
	known := false
	for _, name := range names {
		p := s.cfg.Policies.Find([]byte(name))
		if p == nil {
			continue
		}
		known = true
		if err := s.add(q, u, p, values, a); err != nil {
			return err
		}
	}
	if why := s.cfg.Policies.WhyUnknown(); !known && why != nil { // the stored policies are not read yet
		return status.Error(codes.Unavailable, why.Error())
	}
	return nil
}

// brought returns a policy with the limit that a descriptor brings.
func brought(name string, l *descriptors.RateLimitDescriptor_RateLimitOverride) (*policy.Policy, error) {
	length := int64(0)
	for _, u := range units {
		if int32(u.unit) == int32(l.Unit) { // they have the same numbers
			length = u.length
		}
	}
	multiplier := int64(1)
	if l.UnitMultiplier != nil {
		multiplier = int64(l.UnitMultiplier.Value)
	}
	if length == 0 || multiplier < 1 || multiplier > limit.MaxWindow/length {
		return nil, invalid("a limit needs a unit, and a window of at most 366 days")
	}
	p := &policy.Policy{Name: name, Kind: limit.Fixed, Param: 1}
	if l.RequestsPerUnit == 0 {
		p.Limits = []limit.Window{{Limit: 0, Length: length * multiplier}}
		return p, nil
	}
	p.Limits = []limit.Window{{Limit: int64(l.RequestsPerUnit), Length: length * multiplier}}
	return p, nil
}

// add adds a request by a policy about a descriptor's values, if the policy is for so many.
func (s *Server) add(q *inquiry, u *acl.User, p *policy.Policy, values []string, a asked) error {
	key, ok := envoy.Key(p, values)
	if !ok {
		return nil
	}
	words := [][]byte{[]byte(s.decider.Check.Name), []byte(p.Name), []byte(key)}
	if !s.decider.May(u, words) {
		return status.Error(codes.PermissionDenied, "the user may not run rl.check on this key")
	}
	r := q.Add()
	if msg := p.Fill(r, &q.Pipeline, words[2]); msg != "" {
		return invalid("%s", msg)
	}
	a.least = math.MaxInt64
	for _, w := range r.Limits() {
		a.least = min(a.least, w.Limit)
	}
	if a.least == 0 { // a descriptor brought it
		r.N, r.Verdict = 0, engine.Blocked
	}
	// More than the limit is never admitted; asking for all of it shows what is left.
	r.Cost = int64(min(a.hits, uint64(min(a.least, limit.MaxLimit)))) // #nosec G115 -- it is at most MaxLimit
	q.asked = append(q.asked, a)
	return nil
}

func invalid(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}
