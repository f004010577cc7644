package engine

import "errors"

var errReply = errors.New("the script's reply is malformed")

// How an entry of the reply begins, see lua/batch.lua.
const (
	atNode      = iota // of a key that is not split
	failedEntry        // and charged nothing
	atHome             // of a split key
	atPart
)

// move takes the items of an entry from index from on out of the batch: they are
// answered by somebody else.
func (b *batch) move(e *asked, from int64, n *node) []item {
	out := make([]item, 0, e.n-from)
	for at, j := int64(0), e.first; at < e.n; at, j = at+1, b.next[j] {
		if at >= from {
			b.items[j].node = n
			out = append(out, b.items[j])
			b.items[j] = item{}
		}
	}
	return out
}

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
		status := r.uint(1)
		if status == failedEntry {
			why := r.text(r.uint(2))
			if b.astray(e, node, why) {
				continue
			}
			for j, n := e.first, e.n; n > 0; j, n = next[j], n-1 {
				node.refuse(&items[j], why)
			}
			continue
		}
		req, open, parts := items[e.first].req, false, 0
		if status == atHome {
			parts = int(r.uint(2))
			open = r.uint(1) == 1
		}
		if status != atPart {
			node.engine.splits.learn(req.Key, parts)
		}
		granted := r.uint(4)
		node.engine.splits.observe(req, items[e.first].part, r.uint(3))
		if open && (req.Op == OpReset || req.Cost == 0) {
			r.text(int64(verdictBytes * c.questions[e.question].verdicts()))
			node.engine.splits.whole(b.move(e, 0, node))
			continue
		}
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
		decided, j := e.n, e.first
		if open || status == atPart {
			decided = granted
		}
		for at := range decided {
			items[j].res.Decision = req.decide(vs[:req.N], clock, granted, at, resetOf(req.Op))
			j = next[j]
		}
		if decided < e.n {
			var m *missed
			if status == atPart {
				miss := reader{r.text(r.uint(2)), true}
				m = miss.miss(items[e.first].part, req.pairs())
			}
			node.engine.splits.join(newParty(b.move(e, decided, node), m))
			continue
		}
		if status == atPart {
			r.text(r.uint(2))
			continue
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
		verdicts := int64(7 + verdictBytes*c.questions[c.entries[i].question].verdicts())
		switch r.uint(1) {
		case atNode:
			r.text(verdicts)
		case atHome:
			r.text(3 + verdicts)
		case atPart:
			r.text(verdicts)
			r.text(r.uint(2))
		case failedEntry:
			r.text(r.uint(2))
		default:
			return false
		}
	}
	return r.ok && r.s == ""
}
