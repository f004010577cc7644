package limit

// Kind is the number of an algorithm on the wire to nodes and in stored records;
// lua/layout.lua has the same numbers. A number is never reused for another algorithm. 5 to
// 7 are used for stored records and requests that are not algorithms.
type Kind uint8

// The kinds.
const (
	Slide   Kind = 1 // the exact log of RL.SLIDE
	Counter Kind = 2 // the weighted sub-windows of RL.COUNTER
	Fixed   Kind = 3 // the fixed window of RL.FIXED
	GCRA    Kind = 4 // the generic cell rate algorithm of CL.THROTTLE

	Concurrency Kind = 8 // the leases of RL.ACQUIRE: nothing is charged, only held units count
)

// Kinds is one more than the largest kind, the length of an array by kind.
const Kinds = len(algorithms)

// String returns the name of the kind's command, in upper case.
func (k Kind) String() string {
	if !k.Known() {
		return "unknown"
	}
	return algorithms[k].name
}

// Known reports whether there is an algorithm of this kind.
func (k Kind) Known() bool { return int(k) < len(algorithms) && algorithms[k].name != "" }

// Windowed reports whether units of this kind count in windows. They can be held, and charged by requests with an id.
func (k Kind) Windowed() bool { return k.Known() && algorithms[k].forgotten != nil }

// Additive reports whether units of this kind that were counted in several places
// add up, so that they can be lent to shards and written back to a node.
func (k Kind) Additive() bool { return algorithms[k].additive }

// algorithm is how one kind counts: five operations on a State, of which lua/ has
// all but fresh, and what its answers need. Times are in ms, except that now is in ns for a rate: see Spec.Now.
type algorithm struct {
	name     string // of the command, in upper case
	additive bool   // see Kind.Additive
	peek     int64  // the units that a request without cost asks for
	rate     bool   // units drain at the Spec's Interval: requests go by the clock alone, and answers by the state before the entry

	// fresh makes s a state that has counted nothing.
	fresh func(s *State)
	// usage returns the units that count at now. For a log, edge is the index of the
	// first entry that counts, from which charge and room continue.
	usage func(s *State, now int64, spec *Spec) (used int64, edge int)
	// charge admits units at now, under the limit of w.
	charge func(s *State, now int64, w Window, units int64, edge int)
	// room returns the first ms after now at which at most a number of units count.
	// More than that count at now.
	room func(s *State, now, most int64, spec *Spec, edge int) int64
	// until returns the last ms at which the state can matter.
	until func(s *State) int64

	// newest returns the ms of the newest admission, as the algorithm dates it, and
	// the units in its sub-window, which forgotten or answer will need.
	newest func(s *State) (at, units int64)
	// forgotten returns the ms from the clock until nothing of a window counts. u has the
	// newest admission, and newest is the number of units in its sub-window.
	forgotten func(s *Spec, w Window, clock int64, u Usage, newest int64) int64
	// redated returns what forgotten returns of a window whose newest units are dated at clock, given what it returned when
	// they were dated at last, which is later.
	redated func(s *Spec, w Window, clock, last, reset int64) int64
	// answer, if set, replaces the rule by which Decide describes windows. For a rate, its
	// Usage has Last and Newest as they were before the entry.
	answer func(s *Spec, u Usage, granted, j int64) Decision
}

// algorithms has all algorithms. The first row is for a zero State, which has expired.
var algorithms = [...]algorithm{
	0: {until: func(*State) int64 { return -1 }},
	Slide: {
		name: "RL.SLIDE", additive: true, peek: 1,
		fresh: slideFresh, usage: slideUsage, charge: slideCharge, room: slideRoom, until: slideUntil,
		newest: slideNewest, forgotten: slideForgotten, redated: slideRedated,
	},
	Counter: {
		name: "RL.COUNTER", additive: true, peek: 1,
		fresh: counterFresh, usage: counterUsage, charge: counterCharge, room: counterRoom, until: counterUntil,
		newest: counterNewest, forgotten: counterForgotten, redated: counterRedated,
	},
	Fixed: {
		name: "RL.FIXED", additive: true, peek: 1,
		fresh: fixedFresh, usage: fixedUsage, charge: fixedCharge, room: fixedRoom, until: fixedUntil,
		newest: fixedNewest, forgotten: fixedForgotten, redated: fixedRedated,
	},
	GCRA: {
		name: "CL.THROTTLE", rate: true,
		fresh: gcraFresh, usage: gcraUsage, charge: gcraCharge, room: gcraRoom, until: gcraUntil,
		answer: gcraAnswer,
	},
	Concurrency: {name: "RL.ACQUIRE", peek: 1, answer: slotsAnswer}, // has no State
}
