package limit

// The sliding-window counter of RL.COUNTER with n sub-windows per window. It keeps
// the count of the sub-window of the last charge, here called top, and of the n
// before it. It changes only when charged. All sub-windows but the oldest count in
// full; the oldest counts by the share of it that the window still covers, or in
// full if strict. With n = 1 this is the classic pair of the current window and the
// previous one (Cloudflare, "How we built rate limiting capable of scaling to
// millions of domains", 2017).

// Counter is the kind of RL.COUNTER. Its Param is the number of sub-windows per window.
const Counter Kind = 2

// Strict is the Manner of a request that counts the oldest sub-window in full.
const Strict = 1

// MaxBuckets is the most sub-windows per window.
const MaxBuckets = 1000

func init() {
	register(Counter, algorithm{
		name: "RL.COUNTER", additive: true, windows: true, peek: 1,
		mostParam: func(w Window) int64 { return min(w.Length, MaxBuckets) },
		fresh:     counterFresh, usage: counterUsage, charge: counterCharge, room: counterRoom, until: counterUntil,
		empty: counterEmpty,
	})
}

// Strict reports whether the request counts the oldest sub-window in full.
func (s *Spec) Strict() bool { return s.Kind == Counter && s.Manner == Strict }

func counterFresh(s *State) {
	if s.Param() > 1 { // with one, past is the one cell
		cells := make([]int64, s.Param())
		s.cells = &cells
	}
}

func counterUsage(s *State, now int64, spec *Spec) (used int64, edge int) {
	k := s.sub(now)
	oldest, rest := s.divide(k)
	return usedAt(now, k, s.Param(), s.window, oldest, rest, spec.Strict()), 0
}

func counterCharge(s *State, now int64, _ *Spec, _ Window, units int64, _ int) {
	k, top, n := s.sub(now), s.sub(s.last), s.Param()
	switch {
	case k > top+n:
		s.newest, s.past = 0, 0
		if s.cells != nil {
			clear(*s.cells)
		}
	case n == 1 && k > top:
		s.newest, s.past = 0, s.newest
	default:
		for ; top < k; top++ {
			cell := &(*s.cells)[top%n] // of top-n, which is forgotten
			s.past += s.newest - *cell
			*cell, s.newest = s.newest, 0
		}
	}
	s.newest += units
}

// counterRoom looks through the sub-windows in which there might be room, n+2 at
// most: then nothing counts.
func counterRoom(s *State, now, most int64, spec *Spec, _ int) int64 {
	k, n := s.sub(now), s.Param()
	oldest, rest := s.divide(k)
	for {
		if rest <= most {
			if t := lighter(oldest, most-rest, k, n, s.window, now+1, spec.Strict()); t < subStart(k+1, n, s.window) {
				return t
			}
		}
		k, oldest, rest = s.pass(k, rest, most)
	}
}

func counterUntil(s *State) int64 {
	n := s.Param()
	return subStart(s.sub(s.last)+n+1, n, s.window) - 1
}

// counterEmpty returns the first ms at which the newest sub-window weighs nothing. Those before it are empty earlier.
func counterEmpty(s *State, _ int64, spec *Spec) int64 {
	n := s.Param()
	return lighter(s.newest, 0, s.sub(s.last)+n, n, s.window, 0, spec.Strict())
}

// units returns the count of sub-window k.
func (st *State) units(k int64) int64 {
	top, n := st.sub(st.last), st.Param()
	switch {
	case k == top:
		return st.newest
	case k > top || k < top-n:
		return 0
	case n == 1:
		return st.past
	}
	return (*st.cells)[k%n]
}

// divide returns the count of the oldest sub-window when k is the newest, and the
// sum of the others. It takes as long as k is ahead of the last charge.
func (st *State) divide(k int64) (oldest, rest int64) {
	top, n := st.sub(st.last), st.Param()
	if k > top+n {
		return 0, 0
	}
	rest = st.past + st.newest
	for j := top - n; j <= k-n; j++ {
		rest -= st.units(j)
	}
	return st.units(k - n), rest
}

// pass moves from sub-window k to the next, and past those in which rest is above
// most. It returns the sub-window that it reaches, the oldest count there and the rest.
func (st *State) pass(k, rest, most int64) (at, oldest, left int64) {
	top, n := st.sub(st.last), st.Param()
	if n > 1 {
		cells := *st.cells
		for i := (k + 1) % n; k+1-n < top; i++ {
			if i == n {
				i = 0
			}
			k++
			if rest -= cells[i]; rest <= most {
				return k, cells[i], rest
			}
		}
	}
	k++
	oldest = st.units(k - n)
	return k, oldest, rest - oldest
}
