package hold

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Cells are the units held of one window, by deadline. The zero value holds nothing. Work and memory depend on the
// number of deadlines and not on the number of holds.
type Cells struct {
	limit.Calls        // that held units, renewals included
	limit       int64  // of the newest hold
	lapsed      int64  // number of holds that have lapsed and were removed
	units       int64  // of all cells
	list        []cell // by deadline, the earliest first
}

// cell has the units held until one deadline.
type cell struct {
	at      int64 // the deadline: the units are held while now < at
	charge  int64 // units that are charged when they lapse
	release int64 // units that are forgotten when they lapse
	holds   int64
}

const (
	cellsBytes = int64(unsafe.Sizeof(Cells{}))
	cellBytes  = int64(unsafe.Sizeof(cell{}))
)

// Add holds units under a limit, until a deadline that Deadline returned for now. The caller has called Lapse for now.
func (c *Cells) Add(now, under, at, units int64, release bool) {
	i, found := c.find(at)
	if !found {
		c.list = slices.Insert(c.list, i, cell{at: at})
	}
	c.list[i].add(units, release)
	c.list[i].holds++
	c.units += units
	c.limit = under
	c.Count(now, 1)
}

// Has reports whether Remove can remove the units.
func (c *Cells) Has(at, units int64, release bool) bool {
	i, found := c.find(at)
	if !found {
		return false
	}
	if release {
		return c.list[i].release >= units
	}
	return c.list[i].charge >= units
}

// Remove ends a hold of units before its deadline. Has must have returned true.
func (c *Cells) Remove(at, units int64, release bool) {
	i, _ := c.find(at)
	c.list[i].add(-units, release)
	c.list[i].holds--
	c.units -= units
	if c.list[i].holds == 0 {
		c.delete(i, i+1)
	}
}

// Lapse removes the cells whose deadline is at or before now, in order, and returns the number of their holds. It calls
// charge with the units to be charged and their deadline.
func (c *Cells) Lapse(now int64, charge func(at, units int64)) (holds int64) {
	n := c.past(now)
	for _, l := range c.list[:n] {
		if l.charge > 0 {
			charge(l.at, l.charge)
		}
		c.units -= l.charge + l.release
		holds += l.holds
	}
	c.delete(0, n)
	c.lapsed += holds
	return holds
}

// Held returns the units held at now, and the number of holds.
func (c *Cells) Held(now int64) (units, holds int64) {
	for _, l := range c.list[c.past(now):] {
		units, holds = units+l.charge+l.release, holds+l.holds
	}
	return units, holds
}

// Lapsed returns how many holds have lapsed at now, removed ones included.
func (c *Cells) Lapsed(now int64) int64 {
	sum := c.lapsed
	for _, l := range c.list[:c.past(now)] {
		sum += l.holds
	}
	return sum
}

// Empty reports whether there are no cells, not even lapsed ones.
func (c *Cells) Empty() bool { return len(c.list) == 0 }

// Bytes returns the memory that c takes.
func (c *Cells) Bytes() int64 { return cellsBytes + int64(cap(c.list))*cellBytes }

func (l *cell) add(units int64, release bool) {
	if release {
		l.release += units
	} else {
		l.charge += units
	}
}

// find returns the index of the cell with a deadline, or where it would be, and whether it exists.
func (c *Cells) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(c.list, at, func(l cell, at int64) int { return cmp.Compare(l.at, at) })
}

// past returns the number of cells that have lapsed at now.
func (c *Cells) past(now int64) int {
	if len(c.list) == 0 || c.list[0].at > now { // nearly always
		return 0
	}
	n, _ := c.find(now + 1)
	return n
}

// delete drops the cells from i up to j, and shrinks the list if little of it is used.
func (c *Cells) delete(i, j int) {
	c.list = slices.Delete(c.list, i, j)
	if n := len(c.list); n < cap(c.list)/4 {
		c.list = append(make([]cell, 0, n+n/4), c.list...)
	}
}
