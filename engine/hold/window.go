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
	if w.Cells != nil && replays(s) {
		n := w.Cells.past(now)
		st := w.replay(s, n)
		return Reading{Used: st.Read(now, s).Used + w.heldAfter(n)}
	}
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

// replays reports whether lapsed units of the spec's kind are read from a copy of the state to which they are charged.
// A log is too large to copy; its units leave the window one by one, so they are counted beside it. Other kinds have no
// units to charge.
func replays(s *limit.Spec) bool { return s.Kind.Additive() && s.Kind != limit.Slide }

// replay returns a copy of the state as it is after the first n cells have lapsed.
func (w *Window) replay(s *limit.Spec, n int) *limit.State {
	st := s.Copy(w.State, w.Window)
	for _, l := range w.Cells.list[:n] {
		w.lapse(s, st, l)
	}
	return st
}

// lapse charges the units of a cell to a copy of the state.
func (w *Window) lapse(s *limit.Spec, st *limit.State, l cell) {
	if l.charge > 0 {
		charged := *s
		charged.Cost = l.charge
		st.Charge(l.at, &charged, w.Window, 1, limit.Reading{})
	}
}

// heldAfter returns the units of all cells but the first n.
func (w *Window) heldAfter(n int) int64 {
	sum := w.Cells.units
	for _, l := range w.Cells.list[:n] {
		sum -= l.charge + l.release
	}
	return sum
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

// leaves returns the first ms at which a cell's units, charged to a log when the cell lapses, no longer count. Slots,
// which have no length, have no such units.
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
	switch {
	case w.Cells == nil:
		return w.State.RoomAt(now, most, s, r.state)
	case replays(s):
		return w.replayedRoom(now, most, s)
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

// replayedRoom is RoomAt for kinds whose lapsed units are charged to a copy of the state. Between two deadlines only
// the state's count changes.
func (w *Window) replayedRoom(now, most int64, s *limit.Spec) int64 {
	n := w.Cells.past(now)
	st, held, at := w.replay(s, n), w.heldAfter(n), now
	for list := w.Cells.list[n:]; ; list = list[1:] {
		next := int64(math.MaxInt64)
		if len(list) > 0 {
			next = list[0].at
		}
		if left := most - held; left >= 0 {
			t, r := at, st.Read(at, s)
			if r.Used > left {
				t = st.RoomAt(at, left, s, r)
			}
			if t < next {
				return t
			}
		}
		w.lapse(s, st, list[0])
		held, at = held-list[0].charge-list[0].release, next
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
// the window.
func (w *Window) EmptyAt(now int64, s *limit.Spec) (at int64) {
	st, dated := w.State, int64(0)
	charged := w.Cells != nil && replays(s)
	if charged {
		st = w.replay(s, len(w.Cells.list))
	}
	if st != nil {
		at, dated = st.EmptyAt(now, s), newest(st)
	}
	if w.Cells == nil {
		return at
	}
	released := false
	for i := len(w.Cells.list) - 1; i >= 0 && (!charged || !released); i-- {
		l := w.Cells.list[i]
		if !charged && l.charge > 0 {
			charged, at = true, max(at, w.leaves(l, dated))
		}
		if !released && l.release > 0 {
			released = true
			if l.at > now {
				at = max(at, l.at)
			}
		}
	}
	return at
}

// EmptyIfCharged returns the first ms at which nothing counts any more if what is held is charged now. It is not for a
// log.
func (w *Window) EmptyIfCharged(now int64, s *limit.Spec) int64 {
	return s.EmptyIf(w.State, w.Window, now, w.Cells.units)
}

// Until returns the last ms at which the cells of a window of s can matter.
func (w *Window) Until(s *limit.Spec) int64 {
	last := w.Cells.list[len(w.Cells.list)-1].at - 1
	for i := len(w.Cells.list) - 1; i >= 0; i-- {
		l := w.Cells.list[i]
		switch {
		case l.charge == 0:
		case replays(s):
			st := s.Copy(nil, w.Window)
			w.lapse(s, st, l)
			return max(last, st.Until())
		default:
			return max(last, w.leaves(l, 0)-1)
		}
	}
	return last
}

// newest returns the ms of a state's newest charge, as RL.SLIDE dates it; 0 of other kinds.
func newest(s *limit.State) int64 {
	if s.Kind() != limit.Slide {
		return 0
	}
	return s.Until() - s.Window()
}
