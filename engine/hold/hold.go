// Package hold is the arithmetic of units that are held, and of requests with an id of their own. Units that are held
// count from the ms at which they are held. They are settled before their deadline, or lapse at it: then they are charged
// at that very ms, or forgotten. It does no I/O, reads no clock and starts no goroutine; times are in whole ms since the
// epoch, units are those of a cost.
//
// A key that holds nothing has nothing of this. Of the others, each window has Cells: the units held until each deadline,
// beside the limit.State of what it has counted. Deadlines are rounded up, so that there are few of them however many
// holds are out. Nobody acts at a deadline. Whoever asks counts cells that have lapsed as if they had been taken, and
// whoever writes takes them.
//
// Reading order: hold.go (this file), cells.go, window.go (what a window with both tells), book.go (a key's windows),
// admit.go (holding), settle.go (settling and renewing), ids.go (which ids are known).
package hold

import "math/bits"

// Deadline returns the ms at which what is held at now for ttl ms lapses: now + ttl, rounded up to a multiple of the largest
// power of two that is at most ttl/64. So at most 129 deadlines exist of all holds with a ttl from 2^n to 2^(n+1).
func Deadline(now, ttl int64) int64 {
	g := int64(1)
	if ttl >= 128 {
		g = 1 << (bits.Len64(uint64(ttl/64)) - 1)
	}
	return (now + ttl + g - 1) / g * g
}
