package engine

import "unsafe"

// state is what a key has counted for one command, window and number of buckets.
type state struct {
	next    *state // the key's other states, in no order
	window  int64  // ms
	limit   int64  // as last charged
	last    int64  // the ms of the last charge, as it was: not on the grid
	calls   uint32 // charging calls in last's second
	before  uint32 // and in the second before it
	buckets uint16
	op      Op
	counter counter   // OpCounter, OpFixed
	log     *slideLog // OpSlide
}

const stateBytes = int64(unsafe.Sizeof(state{}))

// init makes s the state of a key that r has not yet charged, for w.
func (s *state) init(r *Request, w Window) {
	next := s.next
	*s = state{next: next, window: w.Length, buckets: uint16(r.Buckets), op: r.Op}
	switch r.Op {
	case OpSlide:
		s.log = newLog()
	case OpCounter:
		s.counter = newCounter(r.Buckets)
	}
}

// dataBytes is what init allocates beside the state.
func dataBytes(r *Request) int64 {
	switch r.Op {
	case OpSlide:
		return logBytes
	case OpCounter:
		return counterBytes(r.Buckets)
	}
	return 0
}

// bytes returns what s holds beside itself.
func (s *state) bytes() int64 {
	switch s.op {
	case OpSlide:
		return logBytes + s.log.bytes()
	case OpCounter:
		return counterBytes(s.n())
	}
	return 0
}

// is tells whether s is what r counts for a window of that length.
func (s *state) is(r *Request, length int64) bool {
	return s.op == r.Op && s.window == length && s.buckets == uint16(r.Buckets)
}

func (s *state) n() int64 { return int64(s.buckets) }

// sub returns the sub-window that holds t.
func (s *state) sub(t int64) int64 { return subIndex(t, s.n(), s.window) }

// end returns the last ms at which s can matter.
func (s *state) end() int64 {
	switch s.op {
	case OpSlide:
		return s.log.newest() + s.window
	case OpCounter:
		return subStart(s.sub(s.last)+s.n()+1, s.n(), s.window) - 1
	case OpThrottle:
		return s.throttleEnd()
	}
	return subStart(s.sub(s.last)+1, 1, s.window) - 1
}

// used returns the cost that counts at now.
func (s *state) used(now int64, strict bool) int64 {
	switch s.op {
	case OpSlide:
		return s.log.used(now, s.window)
	case OpCounter:
		return s.counter.used(now, s.sub(s.last), s.n(), s.window, strict)
	case OpThrottle:
		return s.throttleUsed(now)
	}
	return s.counter.fixedUsed(s.sub(now), s.sub(s.last))
}

// room returns the first ms after now at which at most y counts. At now more does.
func (s *state) room(now, y int64, strict bool) int64 {
	switch s.op {
	case OpSlide:
		return s.log.room(s.window, y)
	case OpCounter:
		return s.counter.room(now, s.sub(s.last), s.n(), s.window, y, strict)
	}
	return subStart(s.sub(now)+1, 1, s.window)
}

// newestMark returns the time that the reset is reckoned from: see verdict.last.
func (s *state) newestMark() int64 {
	if s.op == OpSlide {
		return s.log.newest()
	}
	return s.last
}

// grows returns by how many bytes a charge at now changes what s holds.
func (s *state) grows(now int64, w Window) int64 {
	if s.op != OpSlide {
		return 0
	}
	return s.log.grows(now, w)
}

// charge adds the cost of a number of calls of r, admitted at now.
func (s *state) charge(now int64, r *Request, w Window, calls int64) {
	cost := calls * r.Cost
	switch s.op {
	case OpSlide:
		s.log.charge(now, w, cost)
	case OpCounter:
		s.counter.charge(s.sub(now), s.sub(s.last), s.n(), cost)
	case OpThrottle:
		s.throttle(r, cost)
	default:
		s.counter.fixedCharge(s.sub(now), s.sub(s.last), cost)
	}
	switch now/1000 - s.last/1000 {
	case 0:
	case 1:
		s.calls, s.before = 0, s.calls
	default:
		s.calls, s.before = 0, 0
	}
	s.calls += uint32(calls)
	s.limit, s.last = w.Limit, now
}

// rate estimates the charging calls in the second up to now: those of now's second
// and, weighted by their overlap, those of the second before.
func (s *state) rate(now int64) int64 {
	switch now/1000 - s.last/1000 {
	case 0:
		return weigh(int64(s.before), 1000, now%1000) + int64(s.calls)
	case 1:
		return weigh(int64(s.calls), 1000, now%1000)
	}
	return 0
}
