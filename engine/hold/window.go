package hold

import (
	"math"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Window is one window of a key, with its charged state and its holds.
type Window struct {
	limit.Window              // as requested
	State        *limit.State // nil if nothing was charged
	Cells        *Cells       // nil if there are no holds
}

// Reading has the use of a window at one time.
type Reading struct {
	Used   int64 // units that count, held ones included
	state  limit.Reading
	newest int64 // the ms of the newest charge, as its algorithm dates it
}

// Read returns the use of the window at now.
func (w *Window) Read(now int64, s *limit.Spec) (r Reading) {
	if w.State != nil {
		r.state = w.State.Read(now, s)
		r.Used = r.state.Used
		r.newest = newest(w.State)
	}
	if w.Cells != nil {
		r.Used += w.counts(now, r.newest)
	}
	return r
}

// counts returns the units of cells that count at now: those held, and those of lapsed cells that are to be charged.
func (w *Window) counts(now, newest int64) int64 {
	sum := w.Cells.units
	for _, l := range w.Cells.list[:w.Cells.past(now)] {
		sum -= l.release
		if w.leaves(l, newest) <= now {
			sum -= l.charge
		}
	}
	return sum
}

// leaves returns the first ms at which a cell's units, charged when the cell lapses, no longer count. Only RL.SLIDE has
// such units; slots, which have no length, do not.
func (w *Window) leaves(l cell, newest int64) int64 {
	if w.Length == 0 {
		return math.MaxInt64
	}
	dated := limit.Window{Limit: w.Cells.limit, Length: w.Length}.Dated(l.at)
	return max(dated, newest) + w.Length + 1
}

// Calls returns the calls that charged the window by now. Lapsed units are charged by one call for each deadline.
func (w *Window) Calls(now int64) (calls limit.Calls) {
	if w.State != nil {
		calls = w.State.Calls
	}
	for _, l := range w.Cells.list[:w.Cells.past(now)] {
		if l.charge > 0 {
			calls.Count(l.at, 1)
		}
	}
	return calls
}

// RoomAt returns the first ms after now at which at most `most` units count, if nothing is charged, held or settled
// until then. r was read at now, when more counted. Charged units expire by the algorithm, those of released cells at
// the deadline, and those of other cells a window after it. Between two such moments only the state's count changes.
func (w *Window) RoomAt(now, most int64, s *limit.Spec, r Reading) int64 {
	if w.Cells == nil {
		return w.State.RoomAt(now, most, s, r.state)
	}
	list := w.Cells.list
	held, at := w.counts(now, r.newest), now
	i, j := w.Cells.past(now), 0 // the next cells to lapse, and to leave the window after that
	for j < len(list) && w.leaves(list[j], r.newest) <= now {
		j++
	}
	for {
		next := int64(math.MaxInt64)
		if i < len(list) {
			next = list[i].at
		}
		if j < len(list) {
			next = min(next, w.leaves(list[j], r.newest))
		}
		if held <= most {
			if t := max(at, w.stateRoom(now, most-held, s, r)); t < next {
				return t
			}
		}
		at = next
		for ; i < len(list) && list[i].at == at; i++ {
			held -= list[i].release
		}
		for ; j < len(list) && w.leaves(list[j], r.newest) == at; j++ {
			held -= list[j].charge
		}
	}
}

// stateRoom returns the first ms, not before now, at which the state counts at most `most` units.
func (w *Window) stateRoom(now, most int64, s *limit.Spec, r Reading) int64 {
	if r.state.Used <= most {
		return now
	}
	return w.State.RoomAt(now, most, s, r.state)
}

// EmptyAt returns the first ms at which nothing counts any more, if nothing is charged, held or settled until then:
// when the charged units have expired, those of cells that release have lapsed, and those of other cells have left
// the window. What a multi-key request holds, it charges at once, so it counts as if it were charged now. Only such
// requests hold units of a kind other than RL.SLIDE and slots.
func (w *Window) EmptyAt(now int64, s *limit.Spec) (at int64) {
	dated := int64(0)
	if w.State != nil {
		at, dated = w.State.EmptyAt(now, s), newest(w.State)
	}
	if w.Cells == nil {
		return at
	}
	if s.Kind.Windowed() && s.Kind != limit.Slide {
		return max(at, s.EmptyIf(w.State, w.Window, now, w.Cells.units))
	}
	charge, release := false, false
	for i := len(w.Cells.list) - 1; i >= 0 && (!charge || !release); i-- {
		l := w.Cells.list[i]
		if !charge && l.charge > 0 {
			charge, at = true, max(at, w.leaves(l, dated))
		}
		if !release && l.release > 0 {
			release = true
			if l.at > now {
				at = max(at, l.at)
			}
		}
	}
	return at
}

// Until returns the last ms at which the cells can matter.
func (w *Window) Until() int64 {
	last := w.Cells.list[len(w.Cells.list)-1].at - 1
	for i := len(w.Cells.list) - 1; i >= 0; i-- {
		if l := w.Cells.list[i]; l.charge > 0 {
			return max(last, w.leaves(l, 0)-1)
		}
	}
	return last
}

// newest returns the ms of a state's newest charge, as RL.SLIDE dates it.
func newest(s *limit.State) int64 {
	if s.Kind() != limit.Slide {
		return 0 // only RL.SLIDE has cells that charge
	}
	return s.Until() - s.Window()
}
