// Package limit is the arithmetic of rate limits: which units of a window count at a time, whether a cost still fits,
// when it will, and when nothing counts any more. It does no I/O, reads no clock and starts no goroutine; times are
// arguments, in whole milliseconds since the epoch unless a name says otherwise, and in ns for a rate.
//
// A Spec says what a request asks for. A State has what one key has counted for one window. An algorithm is five
// operations on a State, and each has a file with its row; CONTRIBUTING.md says what a new one needs. The embedded
// engine keeps States in memory; a Redis node keeps the same thing in a stored record, and lua/ has the same
// operations, except fresh: the fields of a new state are 0 there. Both hand over a Usage per window, and Decide
// turns that into the answer, so that the two cannot differ.
//
// Most algorithms count units in windows. One with a rate lets them drain at a constant interval instead: its Spec
// has that as its Manner, and a window without a length. Slots have no State: only held units count (package hold).
//
// Reading order: limit.go (this file), kinds.go, state.go, calls.go, one of the algorithms (calendar.go belongs to
// fixed.go), and decide.go.
package limit

import "slices"

// Bounds of a Spec. The parser of commands checks them, and scripts and engines
// rely on them: with them, products and sums are exact.
const (
	MaxLimit   = 1_000_000_000_000      // most cost per window
	MaxWindow  = 366 * 24 * 3600 * 1000 // ms
	MaxWindows = 8                      // windows in one request
)

// Window is one limit over one length of time.
type Window struct {
	Limit  int64 // most cost admitted per window, 1 to MaxLimit
	Length int64 // ms, 1 to MaxWindow, or a calendar window, see calendar.go; 0 with a rate, and for slots
}

// Spec is what a request asks of a key: everything that decides, except for the key
// itself. Requests with equal specs for one key may be answered together.
type Spec struct {
	Kind    Kind
	N       int // windows in use, 1 to MaxWindows
	Cost    int64
	Param   int64 // the algorithm's parameter that names the state, with the kind and the window: see its file
	Manner  int64 // how this request counts what a state has, which does not name the state: see the algorithm's file
	Windows [MaxWindows]Window

	// Clock is the embedded engine's, in ns, when it decides, for algorithms finer than a ms; nodes have their own.
	Clock int64
}

// beyond returns the us of the clock beyond now, 0 if a state's newest charge is later than the clock.
func (s *Spec) beyond(now int64) int64 {
	if s == nil || s.Clock/nsPerMs != now {
		return 0
	}
	return s.Clock % nsPerMs / 1000
}

// Limits returns the windows in use, in the order given.
func (s *Spec) Limits() []Window { return s.Windows[:s.N] }

// SharesState reports whether both specs count in the same state, so that units charged for one of them count for the
// other.
func (s *Spec) SharesState(o *Spec) bool {
	if s.Kind != o.Kind || s.Param != o.Param {
		return false
	}
	for _, w := range s.Limits() {
		if slices.ContainsFunc(o.Limits(), func(v Window) bool { return v.Length == w.Length }) {
			return true
		}
	}
	return false
}

// Longest returns the length of the longest window, in ms.
func (s *Spec) Longest() int64 {
	var longest int64
	for _, w := range s.Limits() {
		longest = max(longest, w.Ms())
	}
	return longest
}

// Shortest returns the length of the shortest window, in ms.
func (s *Spec) Shortest() int64 {
	least := int64(MaxWindow)
	for _, w := range s.Limits() {
		least = min(least, w.Ms())
	}
	return least
}

// Smallest returns the smallest of the limits.
func (s *Spec) Smallest() int64 {
	least := int64(MaxLimit)
	for _, w := range s.Limits() {
		least = min(least, w.Limit)
	}
	return least
}
