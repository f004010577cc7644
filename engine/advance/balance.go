package advance

import "time"

// Balance is what a proxy knows of one key and the requests with one spec: its advance, how many units they ask for,
// and whether a call about the advance is under way.
type Balance struct {
	Advance

	demand  demand
	calling bool
	called  Instant // when the newest call was sent
}

const (
	// hot is how many units requests must ask for in a span for an advance to pay, times their cost.
	hot = 16
	// pause is the least time between two calls that nothing but the need for more units causes.
	pause = 50 * time.Millisecond
	// soon is how many ms before its deadline an advance is accounted for at the latest.
	soon = 25
)

// Request counts a request, and reports whether it is admitted from the advance. Otherwise the home decides it.
func (b *Balance) Request(now Instant, cost int64) bool {
	b.demand.add(now, cost)
	return b.Draw(now, cost)
}

// Message is what a proxy says about an advance in a call to the home.
type Message struct {
	Account *Account
	Want    int64 // units that it would like to have; 0: none
}

// Call begins a call that is made anyway, for requests of a cost. It returns nothing if another one about the advance
// is under way.
func (b *Balance) Call(now Instant, cost int64) (m Message, ok bool) {
	if b.calling {
		return m, false
	}
	if need := b.need(now); need >= hot*cost && !b.recalled {
		m.Want = 2 * need
	}
	m.Account = b.Account(m.Want)
	if m.Account == nil && m.Want == 0 {
		return m, false
	}
	b.calling, b.called = true, now
	return m, true
}

// need returns how many units requests will ask for in a span.
func (b *Balance) need(now Instant) int64 {
	span := b.span
	if span == 0 {
		span = usual
	}
	return b.demand.in(now, time.Duration(span)*time.Millisecond)
}

// Due reports whether there is a reason for a call, although no request needs one: an account whose answer was lost,
// a recall, a deadline that comes, or units that are about to be used up.
func (b *Balance) Due(now Instant) bool {
	switch {
	case b.number == 0 || b.calling:
		return false
	case b.recalled || b.Pending() && now.Since(b.called) >= pause:
		return true
	}
	remaining := b.Remaining(now)
	return now.Since(b.called) >= pause &&
		(remaining < soon || remaining < b.span/2 || b.left < b.need(now)/2)
}

// End takes the answer to a call with m that was sent at a moment; t is nil if there was none. What the account of a
// call without an answer says is said again by the next call.
func (b *Balance) End(m Message, sent Instant, t *Terms) {
	b.calling = false
	if t != nil {
		b.Answered(m.Account, sent, *t)
	}
}

// Quit gives the advance back, with the next call: the proxy ends, or the key has another home.
func (b *Balance) Quit() { b.recalled = b.number != 0 }
