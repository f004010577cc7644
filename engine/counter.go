package engine

// counter is the state of RL.COUNTER with n sub-windows per window: the count of
// the sub-window of the last charge, here called top, and of the n before it. It
// changes only when charged. Both top and n belong to the state that holds it.
type counter struct {
	newest int64    // units in top
	past   int64    // units in the n sub-windows before top
	cells  *[]int64 // if n > 1: the counts of these n, that of k at k mod n
}

// newCounter returns a counter of n sub-windows that has counted nothing.
func newCounter(n int64) counter {
	if n == 1 {
		return counter{} // past is the one cell
	}
	cells := make([]int64, n)
	return counter{cells: &cells}
}

// counterBytes is what a counter of n holds beside itself.
func counterBytes(n int64) int64 {
	if n == 1 {
		return 0
	}
	return 24 + 8*n
}

// at returns the count of sub-window k.
func (c *counter) at(k, top, n int64) int64 {
	switch {
	case k == top:
		return c.newest
	case k > top || k < top-n:
		return 0
	case n == 1:
		return c.past
	}
	return (*c.cells)[k%n]
}

// split returns the count of the oldest sub-window when k is the newest, and the
// sum of the others. It takes as long as k is ahead of top.
func (c *counter) split(k, top, n int64) (oldest, rest int64) {
	if k > top+n {
		return 0, 0
	}
	rest = c.past + c.newest
	for j := top - n; j <= k-n; j++ {
		rest -= c.at(j, top, n)
	}
	return c.at(k-n, top, n), rest
}

// used returns what counts at now.
func (c *counter) used(now, top, n, w int64, strict bool) int64 {
	k := subIndex(now, n, w)
	oldest, rest := c.split(k, top, n)
	return usedAt(now, k, n, w, oldest, rest, strict)
}

// room returns the first ms after now at which at most y counts. It looks through
// the sub-windows in which it might be, n+2 at most: then nothing counts.
func (c *counter) room(now, top, n, w, y int64, strict bool) int64 {
	k := subIndex(now, n, w)
	oldest, rest := c.split(k, top, n)
	for {
		if rest <= y {
			if t := lighter(oldest, y-rest, k, n, w, now+1, strict); t < subStart(k+1, n, w) {
				return t
			}
		}
		k, oldest, rest = c.pass(k, top, n, rest, y)
	}
}

// pass goes on from sub-window k to the next, and past those in which rest is above
// y. It returns where it stands, the oldest count there and the rest.
func (c *counter) pass(k, top, n, rest, y int64) (at, oldest, left int64) {
	if n > 1 {
		cells := *c.cells
		for i := (k + 1) % n; k+1-n < top; i++ {
			if i == n {
				i = 0
			}
			k++
			if rest -= cells[i]; rest <= y {
				return k, cells[i], rest
			}
		}
	}
	k++
	oldest = c.at(k-n, top, n)
	return k, oldest, rest - oldest
}

// charge adds cost to sub-window k, which becomes top.
func (c *counter) charge(k, top, n, cost int64) {
	switch {
	case k > top+n:
		c.newest, c.past = 0, 0
		if n > 1 {
			clear(*c.cells)
		}
	case n == 1 && k > top:
		c.newest, c.past = 0, c.newest
	default:
		for ; top < k; top++ {
			cell := &(*c.cells)[top%n] // of top-n, which is forgotten
			c.past += c.newest - *cell
			*cell, c.newest = c.newest, 0
		}
	}
	c.newest += cost
}

// The state of RL.FIXED is a counter of which only newest is used: the units in
// the window of the last charge.

// fixedUsed returns what counts in window k.
func (c *counter) fixedUsed(k, top int64) int64 {
	if k != top {
		return 0
	}
	return c.newest
}

// fixedCharge adds cost to window k.
func (c *counter) fixedCharge(k, top, cost int64) {
	c.newest = c.fixedUsed(k, top) + cost
}
