package limit

import "time"

// State has what a key has counted for one algorithm, window and parameter.
type State struct {
	Limit int64 // as last charged
	Calls       // that charged it

	window int64 // Window.Length
	name   int64 // the kind, and the parameter times 256

	// The other fields are the algorithm's own. newest is the units in the sub-window of last. For a
	// rate it is the ns since the epoch at which all has drained.
	newest int64
	// past is the units in the sub-windows before that of last. For a rate it is the
	// ns between units.
	past  int64
	cells *[]int64 // the sub-windows before that of last, if there are several
	log   *slideLog
}

const nsPerMs = 1_000_000

// Init makes st a state that has counted nothing, for one window of a spec.
func (st *State) Init(s *Spec, w Window) {
	*st = State{window: w.Length, name: s.stateName()}
	algorithms[s.Kind].fresh(st)
}

// FreshBytes returns the bytes that a new state of the spec takes in addition to the State itself.
func (s *Spec) FreshBytes() int64 {
	switch {
	case s.Kind == Slide:
		return logBytes
	case s.Kind == Counter && s.Param > 1:
		return cellBytes(s.Param)
	}
	return 0
}

// Is reports whether the state is that of s for a window of that length.
func (st *State) Is(s *Spec, length int64) bool {
	return st.name == s.stateName() && st.window == length
}

// Kind returns the state's algorithm.
func (st *State) Kind() Kind { return Kind(st.name & 255) } // #nosec G115 -- one byte

// Param returns the parameter that names the state.
func (st *State) Param() int64 { return st.name >> 8 }

// stateName returns the kind and the parameter of s in one number.
func (s *Spec) stateName() int64 { return s.Param<<8 | int64(s.Kind) }

// Span returns the length of a window of the spec. For a rate it is the time in which a full use drains; slots have
// none.
func (s *Spec) Span(w Window) time.Duration {
	if s.Kind.Rated() {
		return time.Duration(s.Manner * w.Limit)
	}
	return time.Duration(w.Ms()) * time.Millisecond
}

// Window returns the Length of the window. For a rate it is the time in which a full use drains, in ms.
func (st *State) Window() int64 {
	if st.window == 0 {
		return st.Limit * st.past / nsPerMs
	}
	return st.window
}

// Reading has the use of a state at one time.
type Reading struct {
	Used int64 // units that count
	edge int   // the first entry of a log that counts
}

// Read returns the use of the state at now for a request with spec s. Here and below, now is in ms, and of a rate in
// ns: see Spec.Now.
func (st *State) Read(now int64, s *Spec) Reading {
	used, edge := algorithms[st.Kind()].usage(st, now, s)
	return Reading{used, edge}
}

// Spec returns a spec without windows and cost, by which the state can be read.
func (st *State) Spec() Spec {
	s := Spec{Kind: st.Kind(), Param: st.Param()}
	if st.window == 0 { // a rate
		s.Manner = st.past
	}
	return s
}

// Charge admits units at now, for a number of requests under the limit of w.
// r is what was read at now.
func (st *State) Charge(now int64, s *Spec, w Window, requests int64, r Reading) {
	ms := now
	if st.Kind().Rated() {
		st.past, ms = s.Manner, now/nsPerMs
	}
	algorithms[st.Kind()].charge(st, now, s, w, requests*s.Cost, r.edge)
	st.Count(ms, requests)
	st.Limit = w.Limit
}

// RoomAt returns the first ms after now at which at most a number of units count.
// More count at now, when r was read.
func (st *State) RoomAt(now, most int64, s *Spec, r Reading) int64 {
	return algorithms[st.Kind()].room(st, now, most, s, r.edge)
}

// Until returns the last ms at which the state can matter.
func (st *State) Until() int64 { return algorithms[st.Kind()].until(st) }

// EmptyAt returns the first ms at which nothing counts any more for a request with spec s, if nothing else is charged.
func (st *State) EmptyAt(now int64, s *Spec) int64 { return algorithms[st.Kind()].empty(st, now, s) }

// Copy returns a copy of the state of a window, which may be nil: then it has counted nothing. It is not for a log.
func (s *Spec) Copy(st *State, w Window) *State {
	then := new(State)
	if then.Init(s, w); st != nil {
		cells := then.cells
		if *then = *st; cells != nil {
			copy(*cells, *st.cells)
			then.cells = cells
		}
	}
	return then
}

// EmptyIf returns the first ms at which nothing counts any more if units are charged at a ms, in addition to what the
// state of a window has, which may be nil. It is not for a log.
func (s *Spec) EmptyIf(st *State, w Window, at, units int64) int64 {
	then := s.Copy(st, w)
	algorithms[s.Kind].charge(then, at, s, w, units, 0)
	then.last = at
	return then.EmptyAt(at, s)
}

// Growth returns by how many bytes a charge at now changes the size of the state.
// r was read at now.
func (st *State) Growth(now int64, w Window, r Reading) int64 {
	if st.log == nil {
		return 0
	}
	return st.log.growth(now, w, r.edge)
}

// Bytes returns the bytes that the state takes in addition to the State itself.
func (st *State) Bytes() int64 {
	switch {
	case st.log != nil:
		return logBytes + st.log.bytes()
	case st.cells != nil:
		return cellBytes(st.Param())
	}
	return 0
}

// cellBytes is the size of n cells and of the slice that holds them.
func cellBytes(n int64) int64 { return 24 + 8*n }

// sub returns the sub-window that holds t.
func (st *State) sub(t int64) int64 { return subIndex(t, st.Param(), st.window) }
