package limit

// Usage is what the side that has the state says of one window, for the answer to an entry: n equal requests that were
// made together, of which the first ones were granted. Whatever the algorithm, it is
//
//   - how many units are used,
//   - when there is room for one more request,
//   - and when nothing is used any more, if nothing else comes.
type Usage struct {
	Used int64 // units that counted before the entry

	// Room is the ms from the clock until this window has room for one more request,
	// 0 if it has room now or if all requests were granted.
	Room int64

	// Empty is the ms from the clock until nothing counts any more after the entry, with what it was granted: equal
	// requests are charged at one moment. It has no meaning if nothing was used and nothing granted.
	Empty int64
}

// Decision is the answer to one rate-limit request. A denial is a decision, not an
// error.
type Decision struct {
	Allowed    bool
	Window     int   // index in Spec.Windows of the window that the other fields describe
	Limit      int64 // the limit of that window
	Remaining  int64 // cost still admitted now; -1: answered by a FAIL policy
	RetryAfter int64 // ms; 0 when allowed
	ResetAfter int64 // ms until nothing is used; 0 if nothing is
}

// Decide returns the decision of request j of an entry, from 0, as if the entry's
// requests had come one by one. There is one Usage per window, of the node's clock
// in ms; the first granted requests were admitted.
//
// With several windows the decision describes the one that denied with the longest
// retry, otherwise the one with the least remaining; the first wins ties.
func (s *Spec) Decide(us []Usage, clock, granted, j int64) Decision {
	allowed := j < granted
	charged := min(j+1, granted) * s.Cost // by the entry's requests up to and including j
	picked, remaining := 0, s.Windows[0].Limit-us[0].Used-charged
	for i := 1; i < len(us); i++ {
		left := s.Windows[i].Limit - us[i].Used - charged
		if allowed && left < remaining || !allowed && us[i].Room > us[picked].Room {
			picked, remaining = i, left
		}
	}
	u, w := us[picked], s.Windows[picked]
	d := Decision{Allowed: allowed, Window: picked, Limit: w.Limit, Remaining: max(remaining, 0)}
	least := int64(1)
	if algorithms[s.Kind].rate {
		least = 0 // what is less than a ms away is now
	}
	switch {
	case allowed:
	case s.Cost > w.Limit:
		d.RetryAfter = -1 // waiting never helps
	default:
		d.RetryAfter = max(u.Room, least)
	}
	if u.Used+charged > 0 {
		d.ResetAfter = max(u.Empty, least)
	}
	return d
}

// Now returns the time that a request made at clock goes by, of a key whose newest
// admission is at newest: the later of the two, so that a clock that steps back does
// not make room. A rate goes by the clock alone, and in ns: ns is that of the clock beyond the ms.
func (s *Spec) Now(clock, ns, newest int64) int64 {
	if algorithms[s.Kind].rate {
		return clock*nsPerMs + ns
	}
	return max(clock, newest)
}

// Wanted returns the cost that the answer is about. For a request with cost 0 that is one
// unit, or what its algorithm defines.
func (s *Spec) Wanted() int64 {
	if s.Cost == 0 {
		return algorithms[s.Kind].peek
	}
	return s.Cost
}

// Fits returns how many of n equal requests fit on top of what is used of a window.
func (s *Spec) Fits(w Window, used, n int64) int64 {
	left := w.Limit - used
	switch {
	case left < s.Wanted():
		return 0
	case s.Cost == 0:
		return n
	}
	return min(n, left/s.Cost)
}

// Denies reports whether a window that counted u denies the request after the
// first granted ones.
func (s *Spec) Denies(w Window, u *Usage, granted int64) bool {
	return w.Limit-u.Used-granted*s.Cost < s.Wanted()
}
