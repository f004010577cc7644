package engine

import "errors"

var errReply = errors.New("the script's reply is malformed")

// decode turns the script's reply into the results of the call's items. It returns
// an error, and has set no result, if the reply is not one of this script's.
func (c *call) decode(reply string, node *node, b *batch) error {
	if !c.whole(reply) {
		return errReply
	}
	items, next, denied := b.items, b.next, &node.engine.denied
	r := reader{reply, true}
	clock := r.uint(6)
	for i := range c.entries {
		e := &c.entries[i]
		if r.uint(1) != 0 {
			why := r.text(r.uint(2))
			for j, n := e.first, e.n; n > 0; j, n = next[j], n-1 {
				node.refuse(&items[j], why)
			}
			continue
		}
		granted := r.uint(4)
		r.uint(3) // the rate, for whoever splits
		req := items[e.first].req
		if req.Op == OpReset {
			items[e.first].res.Reset = granted > 0
			denied.forget(req.Key)
			continue
		}
		if req.Op == OpThrottle {
			drains := r.uint(6) * nsPerMs
			drains += r.uint(6)
			r.text(verdictBytes - 12)
			for j, n := e.first, e.n; n > 0; j, n = next[j], n-1 {
				items[j].res.Decision, drains = req.Throttle.charge(clock, drains, req.Cost)
			}
			continue
		}
		var vs [MaxWindows]verdict
		for w := range req.N {
			vs[w] = readVerdict(&r, clock)
		}
		j := e.first
		for at := range e.n {
			items[j].res.Decision = req.decide(vs[:req.N], clock, granted, at, resetOf(req.Op))
			j = next[j]
		}
		if granted < e.n && !node.engine.config.AskAlways {
			denied.remember(req, items[e.last].res.Decision, b.sent.Milliseconds(), b.resets)
		}
	}
	return nil
}

func readVerdict(r *reader, clock int64) verdict {
	v := verdict{used: r.uint(6), retry: r.uint(6), last: r.uint(6) - clock, newest: r.uint(6)}
	if v.retry > 0 {
		v.retry -= clock
	}
	return v
}

// whole tells whether a reply has the bytes that the call's entries ask for.
func (c *call) whole(reply string) bool {
	r := reader{reply, true}
	r.uint(6)
	for i := range c.entries {
		switch r.uint(1) {
		case 0:
			r.text(int64(7 + verdictBytes*c.questions[c.entries[i].question].verdicts()))
		case 1:
			r.text(r.uint(2))
		default:
			return false
		}
	}
	return r.ok && r.s == ""
}
