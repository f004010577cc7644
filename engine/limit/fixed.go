package limit

// The fixed window of RL.FIXED: one count per window. Windows start at multiples of
// their length since the epoch. The count is a State's newest.

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
	if s.sub(now) != s.sub(s.last) {
		return 0, 0
	}
	return s.newest, 0
}

func fixedCharge(s *State, now int64, _ *Spec, _ Window, units int64, _ int) {
	if s.sub(now) != s.sub(s.last) {
		s.newest = 0
	}
	s.newest += units
}

func fixedRoom(s *State, now, _ int64, _ *Spec, _ int) int64 {
	return subStart(s.sub(now)+1, 1, s.window)
}

func fixedUntil(s *State) int64 { return fixedEmpty(s, 0, nil) - 1 }

func fixedEmpty(s *State, _ int64, _ *Spec) int64 { return subStart(s.sub(s.last)+1, 1, s.window) }
