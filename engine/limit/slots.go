package limit

// The slots of RL.ACQUIRE: at most limit units are held at once. Nothing is ever charged, so there is no State. Package hold
// keeps the held units and knows how many there are, when there is room and when the last of them ends.

// Concurrency is the kind of the leases of RL.ACQUIRE.
const Concurrency Kind = 8

var _ = register(Concurrency, algorithm{name: "RL.ACQUIRE", peek: 1, answer: slotsAnswer})

func slotsAnswer(s *Spec, u Usage, granted, j int64) Decision {
	w := s.Windows[0]
	d := Decision{
		Allowed: j < granted, Limit: w.Limit,
		Remaining:  max(w.Limit-u.Used-min(j+1, granted)*s.Cost, 0),
		ResetAfter: max(u.Last, 0),
	}
	if !d.Allowed {
		d.RetryAfter = max(u.Room, 1)
	}
	return d
}
