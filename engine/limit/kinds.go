package limit

import "cmp"

// Kind is the number of an algorithm on the wire to nodes and in stored records, where lua/x.lua has the same number.
// A number is never reused for another algorithm. 5 to 7 are used for stored records and requests that are not
// algorithms.
type Kind uint8

// Kinds is one more than the largest kind there can be, the length of an array by kind: stored records have other
// states from 16 on.
const Kinds = 16

// algorithms has the row of each kind that register was given. Row 0 is for a zero State, which has expired.
var algorithms = [Kinds]algorithm{{until: func(*State) int64 { return -1 }}}

// register enters the row of an algorithm, which its file declares.
func register(k Kind, row algorithm) {
	if k == 0 || k.Known() {
		panic("limit: two algorithms have one number")
	}
	algorithms[k] = row
}

// String returns the name of the kind's command, in upper case.
func (k Kind) String() string {
	if !k.Known() {
		return "unknown"
	}
	return algorithms[k].name
}

// Known reports whether there is an algorithm of this kind.
func (k Kind) Known() bool { return k < Kinds && algorithms[k].name != "" }

// Windowed reports whether units of this kind count in windows. They can be held, and charged by requests with an id.
func (k Kind) Windowed() bool { return k.Known() && algorithms[k].windows }

// Additive reports whether units of this kind that were counted in several places add up, so that they can be lent to
// shards, written back to a node, and charged as of a deadline that has passed (package hold).
func (k Kind) Additive() bool { return k.Known() && algorithms[k].additive }

// Rated reports whether units of this kind drain at a rate, so that its requests go by the clock alone,
// and in ns.
func (k Kind) Rated() bool { return k < Kinds && algorithms[k].rate }

// Param returns what the parameter of a spec of this kind is called where it is shown. It is buckets for kinds without
// a parameter of their own, too.
func (k Kind) Param() string { return cmp.Or(algorithms[k].param, "buckets") }

// ParamFits reports whether a state with this window can have the parameter of s.
func (s *Spec) ParamFits(w Window) bool {
	most := int64(1)
	if of := algorithms[s.Kind].mostParam; of != nil {
		most = of(w)
	}
	return 1 <= s.Param && s.Param <= most
}

// algorithm is how one kind counts: six operations on a State, of which lua/ has all but fresh. Times are in ms, except
// that now is in ns for a rate: see Spec.Now.
type algorithm struct {
	name     string // of the command, in upper case
	additive bool   // see Kind.Additive
	peek     int64  // the units that a request without cost asks for
	rate     bool   // see Kind.Rated
	windows  bool   // see Kind.Windowed
	param    string // see Kind.Param

	// mostParam returns the largest parameter of a state with a window; nil: 1.
	mostParam func(w Window) int64

	// fresh makes s a state that has counted nothing.
	fresh func(s *State)
	// usage returns the units that count at now. For a log, edge is the index of the
	// first entry that counts, from which charge and room continue.
	usage func(s *State, now int64, spec *Spec) (used int64, edge int)
	// charge admits units at now, under the limit of w.
	charge func(s *State, now int64, spec *Spec, w Window, units int64, edge int)
	// room returns the first ms after now at which at most a number of units count.
	// More than that count at now.
	room func(s *State, now, most int64, spec *Spec, edge int) int64
	// until returns the last ms at which the state can matter.
	until func(s *State) int64

	// empty returns the first ms at which nothing counts any more for a request with the spec.
	empty func(s *State, now int64, spec *Spec) int64
}
