package limit

// testBase is where the clocks of these tests start: 2100-01-01, the start of every
// window whose length divides a day.
const testBase = 4102444800000

// spec returns a spec of cost 1 with one window.
func spec(kind Kind, most, length int64) *Spec {
	return &Spec{Kind: kind, N: 1, Cost: 1, Param: 1, Windows: [MaxWindows]Window{{Limit: most, Length: length}}}
}

// rate returns a spec as CL.THROTTLE makes it, of a period of one second.
func rate(burst, count, quantity int64) *Spec {
	return &Spec{Kind: GCRA, N: 1, Cost: quantity, Manner: Interval(count, 1), Windows: [MaxWindows]Window{{Limit: burst + 1}}}
}

// key is one state, used as an engine uses it: for n equal requests together.
type key struct {
	state State
	used  bool
}

// ask decides n equal requests at ns from testBase, charges those that are admitted,
// and returns the decision of each.
func (k *key) ask(s *Spec, ns, n int64) []Decision {
	clock, w := testBase+ns/nsPerMs, s.Windows[0]
	if !k.used {
		k.state.Init(s, w)
	}
	now := s.Now(clock, ns%nsPerMs, k.state.Last())
	u := []Usage{{}}
	var r Reading
	if k.used {
		r = k.state.Read(now, s)
		u[0].Used = r.Used
		u[0].Empty = k.state.EmptyAt(now, s) - clock
	}
	granted := s.Fits(w, u[0].Used, n)
	if granted > 0 && s.Cost > 0 {
		k.state.Charge(now, s, w, granted, r)
		k.used = true
		u[0].Empty = k.state.EmptyAt(now, s) - clock
	}
	if granted < n && k.used && s.Denies(w, &u[0], granted) {
		u[0].Room = k.state.RoomAt(now, w.Limit-s.Wanted(), s, k.state.Read(now, s)) - clock
	}
	out := make([]Decision, n)
	for j := range out {
		out[j] = s.Decide(u, clock, granted, int64(j))
	}
	return out
}

// one decides one request.
func (k *key) one(s *Spec, ms int64) Decision { return k.ask(s, ms*nsPerMs, 1)[0] }
