package limit

import "math"

// The generic cell rate algorithm of CL.THROTTLE, as redis-cell has it (ITU-T
// I.371; github.com/brandur/redis-cell, src/cell/mod.rs). A state is one time: when
// all that was charged has drained. Units drain at a constant rate, one per
// interval; a request is admitted when its own units drain within the tolerance,
// which is as long as limit units take. All times are in ns, the clock too: an interval may be
// shorter than a ms, and is seldom a number of whole ms. A key has one such state,
// whatever the rate of its requests.
//
// Times in answers are rounded down to ms, not up, because redis-cell converts them to
// whole seconds. RetryAfter is -1 when the cost exceeds the limit, because then waiting
// never helps; it may be 0 in a denial that lasts less than 1 ms.

// GCRA is the kind of CL.THROTTLE. Its Manner is the ns between units.
const GCRA Kind = 4

func init() {
	register(GCRA, algorithm{
		name: "CL.THROTTLE", rate: true,
		fresh: gcraFresh, usage: gcraUsage, charge: gcraCharge, room: gcraRoom, until: gcraUntil,
		empty: gcraEmpty,
	})
}

// MaxDrain is the longest time, in ns, in which the units of a limit may drain: 146 years.
// An engine then stores when they have drained without overflow, until the year 2116.
const MaxDrain = 1 << 62

// Interval returns the ns between units of a rate of count units per period, in
// seconds: a quotient of doubles, rounded down.
func Interval(count, period int64) int64 {
	return int64(float64(period*1e9) / float64(count))
}

func gcraFresh(*State) {}

// draining returns the ns at now until all has drained.
func (st *State) draining(now int64) int64 { return max(st.newest-now, 0) }

// gcraUsage counts the units that have not drained, a fraction of one as a whole.
func gcraUsage(s *State, now int64, spec *Spec) (used int64, edge int) {
	left := s.draining(now)
	return left/spec.Manner + min(left%spec.Manner, 1), 0
}

func gcraCharge(s *State, now int64, _ *Spec, _ Window, units int64, _ int) {
	s.newest = now + min(s.draining(now)+units*s.past, math.MaxInt64-now)
}

func gcraRoom(s *State, now, most int64, spec *Spec, _ int) int64 {
	return now/nsPerMs + max(s.draining(now)-most*spec.Manner, 0)/nsPerMs
}

func gcraUntil(s *State) int64 { return (s.newest - 1) / nsPerMs }

func gcraEmpty(s *State, now int64, _ *Spec) int64 { return now/nsPerMs + s.draining(now)/nsPerMs }
