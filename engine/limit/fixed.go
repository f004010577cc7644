package limit

// The fixed window of RL.FIXED: one count per window. Windows start at multiples of their length since the epoch;
// calendar.go has those of a calendar. The count is a State's newest.

// Fixed is the kind of RL.FIXED.
const Fixed Kind = 3

func init() {
	register(Fixed, algorithm{
		name: "RL.FIXED", additive: true, windows: true, peek: 1,
		fresh: fixedFresh, usage: fixedUsage, charge: fixedCharge, room: fixedRoom, until: fixedUntil,
		empty: fixedEmpty,
	})
}

func fixedFresh(*State) {}

func fixedUsage(s *State, now int64, _ *Spec) (used int64, edge int) {
	if from, to := fixedSpan(s.window, now); s.last < from || now >= to {
		return 0, 0
	}
	return s.newest, 0
}

func fixedCharge(s *State, now int64, _ *Spec, _ Window, units int64, _ int) {
	if from, _ := fixedSpan(s.window, now); s.last < from {
		s.newest = 0
	}
	s.newest += units
}

func fixedRoom(s *State, now, _ int64, _ *Spec, _ int) int64 {
	_, to := fixedSpan(s.window, now)
	return to
}

func fixedUntil(s *State) int64 { return fixedEmpty(s, 0, nil) - 1 }

func fixedEmpty(s *State, _ int64, _ *Spec) int64 {
	from, to := fixedSpan(s.window, s.last)
	if s.last < from { // nothing was charged in the calendar window
		return 0
	}
	return to
}
