package shard

import "slices"

// A split key is one limit that stands on several nodes: lend and recall.
//
// The key's home owns the limit and lends pieces of it, loans, to parts on other
// nodes. A part admits out of what it holds, on its own clock and without asking
// anyone, until its lease ends. Only the home denies, and only after it has read
// what every part has used. What is lent counts at home as if it were used, until
// a report says how little of it was, or until nobody can use it any more.
//
// Part (split_part.go) and Home (split_home.go) are what the nodes' scripts do, Flow
// (split_flow.go) is what a proxy does between them. They are pure: clocks and the
// use of windows are arguments, messages are values. docs/adr/0003 says why this
// never admits too much; split_model_test.go tries it with lost and late messages.

// State names what is charged on a node: one window of one command. Several limits
// may speak of one state.
type State struct {
	Kind    byte  // the command: logs and counters of one length are different states
	Window  int64 // ms
	Buckets int64 // sub-windows, for counters; 0 for logs and fixed windows
}

// Life is how long at most, in ms, a unit counts after it was admitted: the window,
// and for counters one sub-window more.
func (s State) Life() int64 {
	if s.Buckets == 0 {
		return s.Window
	}
	return s.Window + (s.Window+s.Buckets-1)/s.Buckets
}

// Pair is a limit over a state.
type Pair struct {
	State
	Limit int64
}

// Ask is a combined entry: N equal requests, of which the first so many as have
// room are admitted. A question without cost is not an Ask: it reads, see Flow.
type Ask struct {
	Pairs  []Pair // as the caller gave them
	Strict bool   // how sub-windows are counted
	Cost   int64  // at least 1
	N      int64
}

// fit returns how many requests fit into room units.
func (a *Ask) fit(room int64) int64 {
	return max(0, min(a.N, room/a.Cost))
}

// Same tells whether two requests ask about the same limits counted alike, so that
// rights lent for the one serve the other.
func (a *Ask) Same(pairs []Pair, strict bool) bool {
	return a.Strict == strict && slices.Equal(a.Pairs, pairs)
}

// Units is an amount of one state.
type Units struct {
	State
	N int64
}

// Miss is what a part says about itself when it did not admit a whole Ask.
type Miss struct {
	Part  int
	Clock int64 // the part's, ms, when it said so
	Born  int64 // of the part's record
	Seq   int64 // of the newest loan or recall it knows
	Over  bool  // its lease is over: Used is a report, as of a recall numbered Seq
	Used  []Units
}

// Loan is rights on their way from the home to a part: from now on it may hold Held
// in all, what it used already included.
type Loan struct {
	Part   int
	Seq    int64
	Pairs  []Pair // whom the rights serve
	Strict bool
	Held   []int64 // by pair
	Rest   []int64 // by pair: room left at home, for the part's replies only
	Clock  int64   // of the Miss that it answers, and Born
	Born   int64
}

// Recall asks a part to give back what it has not used, and to report.
type Recall struct {
	Part   int
	Seq    int64   // of the newest loan to that part: a loan still on its way is void
	Close  bool    // end the lease too: its pairs are not the caller's
	States []State // to report on
	Strict bool    // how to count them
}

// Report is a part's answer to a Recall. It is void, and what was lent stays counted,
// when the record is not the one that the loan was for: a node that lost its memory
// does not know what it admitted.
type Report struct {
	Part   int
	Seq    int64 // the recall's
	Born   int64 // of the part's record; 0: it has none
	Stale  bool  // the part knows a newer loan: nothing was given back
	Over   bool  // no lease is left that could admit
	Strict bool
	Used   []Units
}

// Rules are the protocol's settings, the same on all proxies.
type Rules struct {
	Lease int64 // ms a part may use a loan, counted from before the loan was asked for
	Grace int64 // ms that the home gives a loan to arrive before it lends that part more
}
