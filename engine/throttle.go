package engine

import "math"

// CL.THROTTLE keeps one number a key, whatever the rate it is asked with: the time,
// in ns since the epoch, at which all that was charged has drained. A request is
// admitted when its own units drain within the tolerance, that is the time that
// Burst+1 units take. The clock is in whole ms, as everywhere; the rest is in ns,
// because the interval between units may be shorter than a ms.

const nsPerMs = 1_000_000

// interval returns the ns between units: a quotient of doubles, cut.
func (t Throttle) interval() int64 {
	return int64(float64(t.Period*1e9) / float64(t.Count))
}

// limit returns the units admitted at once.
func (t Throttle) limit() int64 { return t.Burst + 1 }

// decide answers a request for a number of units, made at clock (in ms) of what
// drains at the time given. It returns when that drains if the request is charged.
func (t Throttle) decide(clock, drains, units int64) (Decision, int64) {
	interval, now := t.interval(), clock*nsPerMs
	tolerance, increment := interval*t.limit(), interval*units
	left := max(drains-now, 0) // ns until all has drained
	d := Decision{Allowed: increment <= tolerance-left, Limit: t.limit()}
	switch {
	case d.Allowed:
		left += increment
	case increment > tolerance:
		d.RetryAfter = -1
	default:
		d.RetryAfter = (increment - (tolerance - left)) / nsPerMs
	}
	d.Remaining = t.remaining(tolerance-left, interval)
	d.ResetAfter = left / nsPerMs
	return d, now + min(left, math.MaxInt64-now)
}

// charge is decide, and returns when all drains after it: later only if it admits.
func (t Throttle) charge(clock, drains, units int64) (Decision, int64) {
	d, after := t.decide(clock, drains, units)
	if d.Allowed && units > 0 {
		drains = after
	}
	return d, drains
}

// remaining returns the units that fit into the rest of the tolerance, both taken
// in whole us as redis-cell does. Below a us an interval has none: then in ns,
// where redis-cell divides by zero.
func (t Throttle) remaining(rest, interval int64) int64 {
	if rest <= 0 {
		return 0
	}
	if interval < 1000 {
		return rest / interval
	}
	return int64(float64(rest/1000) / float64(interval/1000))
}

// throttle is the state of CL.THROTTLE: it lies where a counter would.
func (s *state) throttle(r *Request, drains int64) {
	s.counter.newest, s.counter.past = drains, r.Throttle.interval()
}

// throttleEnd returns the last ms at which something has not drained.
func (s *state) throttleEnd() int64 { return (s.counter.newest - 1) / nsPerMs }

// throttleUsed returns the units that have not drained at clock, a part of one
// counted whole.
func (s *state) throttleUsed(clock int64) int64 {
	interval := s.counter.past
	left := max(s.counter.newest-clock*nsPerMs, 0)
	return left/interval + min(left%interval, 1)
}

// length returns the ms in which a full use of the state is forgotten.
func (s *state) length() int64 {
	if s.op == OpThrottle {
		return s.limit * s.counter.past / nsPerMs
	}
	return s.window
}
