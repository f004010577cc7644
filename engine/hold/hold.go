// Package hold is the arithmetic of reservations and of requests with an id. A hold's units count against the limit
// from the ms at which they are held. A hold is settled before its deadline, or lapses at it: its units are then
// charged as of that ms, or forgotten. Package hold does no I/O, reads no clock and starts no goroutine; times are
// in whole ms since the epoch, units are those of a cost.
//
// An example, with a limit of 10 units per 60 s (RL.RESERVE, which charges RL.SLIDE windows). At 0 s, a request with
// id a holds 8 units for 30 s: 2 units remain. Then either
//
//   - at 5 s the client settles a with cost 3: 3 units are charged as of 5 s and 5 are returned, so 7 remain. A
//     retry with id a still gets the first answer, and an equal settle the same result; or
//   - the client crashes, and the hold lapses at its deadline, 30 s (TTLs are rounded up, see Deadline): the 8
//     units are charged as of 30 s, so 2 remain until they leave the window, just after 90 s. With Hold.Release
//     they would be forgotten at 30 s, and 10 would remain.
//
// Keys without holds and ids have no Book. In a Book, each window has Cells: the units held until each deadline, in
// addition to the limit.State of what has been charged. Deadlines are rounded up, so that there are few of them
// however many holds are outstanding. Nothing runs at a deadline: reads treat lapsed cells as if they had been
// removed, and the next write removes them.
//
// Reading order: hold.go (this file), cells.go, window.go (a window with both), book.go (a key's windows), admit.go
// (holding), settle.go (settling and renewing), ids.go (the remembered ids).
package hold

import "math/bits"

// crowd is the number of cells from which on a window is crowded. Holds with one TTL make fewer.
const crowd = 160

// Deadline returns the ms at which units held at now for ttl ms lapse, unless they are held of a calendar window, which
// ends before: now + ttl, rounded up to a multiple of the largest power of two that is at most ttl/64; or ttl/8, if a
// window of the hold is crowded. So a window has few cells, however many holds with however many TTLs are outstanding.
func Deadline(now, ttl int64, crowded bool) int64 {
	part := ttl / 64
	if crowded {
		part = ttl / 8
	}
	g := int64(1)
	if part > 1 {
		g = 1 << (bits.Len64(uint64(part)) - 1)
	}
	return (now + ttl + g - 1) / g * g
}
