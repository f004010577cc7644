package advance

import "time"

// Balance is what a proxy knows of one key and the requests with one spec: its advance, how many units they ask for,
// and whether a call about the advance is under way.
type Balance struct {
	Advance

	// Period is the ms for which units are asked for, see Span; 0: none are. Hot is for how many requests they must be
	// asked for, see Pays.
	Period, Hot int64

	demand  demand
	cost    int64 // of the newest request
	calling bool
	called  Instant // when the newest call was sent
	sated   bool    // the newest call brought as many units as it asked for
	refused int     // calls in a row that asked for units and brought none
	failed  bool    // the newest call had no answer
	recall  bool    // a recall came while a call was under way
	back    bool    // the newest call gave back what was recalled
}

const (
	// pause is the least time between two calls, unless the first one brought all that was asked for and requests ask
	// for far more by now. It leaves some of 20 calls a second to requests that the home decides. It doubles with each
	// call that brings no units, up to pauses times.
	pause  = 60 * time.Millisecond
	pauses = 5
	// soon is how many ms before its deadline an advance is accounted for at the latest.
	soon = 25
)

// Request counts a request, and reports whether it is admitted from the advance. Otherwise the home decides it.
func (b *Balance) Request(now Instant, cost int64) bool {
	b.demand.add(now, cost)
	b.cost = cost
	return b.Draw(now, cost)
}

// Message is what a proxy says about an advance in a call to the home.
type Message struct {
	Account *Account
	Want    int64 // units that it would like to have; 0: none
}

// Call begins a call. Due or Wants must have reported a reason. A call after one that failed asks for nothing: a node
// that is out of memory takes an account, but advances nothing.
func (b *Balance) Call(now Instant) (m Message) {
	hot := b.Hot
	if b.number != 0 {
		hot /= 2 // so that a key does not lose its advance again and again
	}
	if need := b.need(now); need >= hot*b.cost && !b.recalled && (!b.failed || b.number == 0) {
		m.Want = 2 * need
	}
	m.Account = b.Account(m.Want)
	b.calling, b.called, b.back = true, now, b.recalled && m.Account != nil && m.Account.Keep == 0
	return m
}

// need returns how many units requests will ask for in the period.
func (b *Balance) need(now Instant) int64 {
	return b.demand.in(now, time.Duration(b.Period)*time.Millisecond)
}

// Wants reports whether to ask for a first advance.
func (b *Balance) Wants(now Instant) bool {
	return b.number == 0 && !b.calling && b.Period > 0 && b.cost > 0 && b.need(now) >= b.Hot*b.cost &&
		now.Since(b.called) >= pause<<min(b.refused, pauses)
}

// Due reports whether there is a reason for a call about the advance: requests that ask for more than there is, an
// account whose answer was lost, a recall, or a deadline that comes.
func (b *Balance) Due(now Instant) bool {
	if b.calling || b.number == 0 {
		return false
	}
	scarce := b.left < b.need(now)/2
	switch {
	case b.recalled && !b.Pending() && !b.back:
		return true
	case now.Since(b.called) < pause:
		return scarce && b.sated && !b.recalled
	}
	remaining := b.Remaining(now)
	return b.recalled || b.Pending() || remaining < soon || remaining < b.span/2 || scarce
}

// End takes the answer to a call with m that was sent at a moment; t is nil if there was none. What the account of a
// call without an answer says is said again by the next call.
func (b *Balance) End(m Message, sent Instant, t *Terms) {
	b.calling, b.failed, b.sated = false, t == nil, t != nil && t.Units >= m.Want
	if t != nil {
		b.Answered(m.Account, sent, *t)
		switch {
		case b.number != 0:
			b.refused = 0
		case m.Want > 0:
			b.refused++
		}
	}
	if b.recall {
		b.recall = false
		b.Advance.Recall()
	}
}

// Recall notes that the home wants the advance back, also one that comes with the answer to a call under way.
func (b *Balance) Recall() {
	b.Advance.Recall()
	b.recall = b.calling
}
