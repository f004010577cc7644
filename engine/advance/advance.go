// Package advance lets a proxy decide requests for a hot key in its own memory, exactly.
//
// The home of a key, which is its record on a node, owns the limit. It may advance units to a proxy. They count
// as used there until the proxy accounts for them. The proxy draws from its advance in memory, and tells the home
// with its next call what it drew and when. What it did not draw comes back then. If the proxy never returns, the
// advance lapses: at its deadline all of it is charged. Only the home denies. When it has no room while units are
// advanced, it recalls them before it does.
//
// This is an escrow, as between the home and the shards of a split key: a reserve that is set aside for updates
// that commute bounds their effect (O'Neil, "The Escrow Transactional Method", ACM TODS 1986). What differs is who
// holds it. A proxy may end at any time, so use is kept at the home alone, and an advance is short.
//
// The package has the proxy's side: an Advance, and what to ask for. It is pure: it does no I/O, and time is an
// argument. Package model is the executable specification of the home's side, and compares both with a world that
// knows every true admission. docs/adr/0011-advances.md lists the rules and says why no limit is exceeded.
//
// Reading order: advance.go, balance.go (when to call the home), terms.go, then model.
package advance

import "time"

// Instant is a moment by both clocks of a proxy. The monotonic clock stands still while a machine is suspended, and
// the wall clock may be set back. So the time between two moments is the longer of what the two say.
type Instant struct {
	Monotonic, Wall time.Duration // since any moment that stays the same
}

// Since returns the time since an earlier moment.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.Monotonic-earlier.Monotonic, i.Wall-earlier.Wall, 0)
}

// Draw is units that a proxy has admitted.
type Draw struct {
	At    int64 `msg:"at,clock"` // ms of the node's clock: no earlier than when they were admitted
	Units int64 `msg:"units,units"`
}

// Account says what a proxy has drawn from an advance. The home applies it at most once: only if it has the number.
// So the same account may be sent again, and must be if its answer was lost.
type Account struct {
	Number int64  `msg:"number,number"` // of the advance
	Draws  []Draw `msg:"draws"`         // those that are in no earlier account, in the order of time
	Keep   int64  `msg:"keep,units"`    // the units that the proxy goes on drawing from until the answer
}

// Terms are the home's answer to an account, or to the question for an advance.
type Terms struct {
	Number   int64 `msg:"number,number"`  // of the advance from now on; 0: there is none, whatever was drawn
	Units    int64 `msg:"units,units"`    // all that may be drawn, which includes what was kept
	Deadline int64 `msg:"deadline,clock"` // the ms of the node's clock at which the advance lapses
	Clock    int64 `msg:"clock,clock"`    // the ms of the node's clock at the answer
	Recalled bool  `msg:"recalled"`       // the home wants it back
	Calm     bool  `msg:"calm"`           // there was a recall lately, so nothing is advanced
	Late     bool  `msg:"late"`           // the account came when the home waited no more for it
	Lapsed   int64 `msg:"lapsed,count"`   // holds of the key that had lapsed and that this call removed
}

// Advance is what a proxy may draw from for one key, and requests with one spec. The zero Advance has nothing.
type Advance struct {
	number   int64
	left     int64 // units that may still be drawn
	deadline int64 // ms of the node's clock
	span     int64 // ms for which the home made the advance

	clock int64   // ms of the node's clock in the newest answer
	sent  Instant // when the call was sent that it answers

	draws    []Draw   // those that are in no account yet
	account  *Account // sent, and not answered yet
	recalled bool
}

// Number returns the number of the advance, 0 if there is none.
func (a *Advance) Number() int64 { return a.number }

// Left returns how many units may still be drawn.
func (a *Advance) Left() int64 { return a.left }

// latest returns the latest ms that the node's clock can show. The node answered after the call was sent. Its clock
// shows whole ms, and may run faster by as much as 1 ms in the longest span.
func (a *Advance) latest(now Instant) int64 {
	const ms = time.Millisecond
	return a.clock + int64((now.Since(a.sent)+ms-1)/ms) + 1
}

// Remaining returns for how many ms the advance can be drawn from at least. It is 0 or less if it cannot be.
func (a *Advance) Remaining(now Instant) int64 { return a.deadline - a.latest(now) }

// Draw admits units, and reports whether it could.
func (a *Advance) Draw(now Instant, units int64) bool {
	at := a.latest(now)
	if units > a.left || at >= a.deadline || a.recalled {
		return false
	}
	a.left -= units
	grid := max(a.span/grids, 1)
	at += (grid - at%grid) % grid
	if last := len(a.draws) - 1; last >= 0 && a.draws[last].At >= at {
		a.draws[last].Units += units
	} else {
		a.draws = append(a.draws, Draw{at, units})
	}
	return true
}

// Recall notes that the home wants the advance back. Nothing more is drawn.
func (a *Advance) Recall() { a.recalled = a.number != 0 }

// Recalled reports whether the home wants the advance back.
func (a *Advance) Recalled() bool { return a.recalled }

// Account returns what to tell the home, or nil if there is no advance. While the home has not answered it is the
// same account. A new one keeps at most keep units, and gives the others back.
func (a *Advance) Account(keep int64) *Account {
	if a.account == nil && a.number != 0 {
		if a.recalled {
			keep = 0
		}
		a.left = min(a.left, keep)
		a.account = &Account{Number: a.number, Draws: a.draws, Keep: a.left}
		a.draws = nil
	}
	return a.account
}

// Pending reports whether an account is not answered yet.
func (a *Advance) Pending() bool { return a.account != nil }

// Answered takes the home's answer to the call that was sent at a moment, with an account or without one. An answer
// to an account that has been answered changes nothing.
func (a *Advance) Answered(account *Account, sent Instant, t Terms) {
	switch {
	case account != a.account || account == nil && a.number != 0:
		return
	case t.Number == 0:
		*a = Advance{}
		return
	}
	left := t.Units
	for _, d := range a.draws {
		left -= d.Units
	}
	a.number, a.left, a.deadline, a.span = t.Number, left, t.Deadline, t.Deadline-t.Clock
	a.clock, a.sent, a.account, a.recalled = t.Clock, sent, nil, t.Recalled
}
