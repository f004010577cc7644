// Package lease lets one limit stand on several nodes and stay exact, by lending and
// recalling.
//
// A split key has one home, number 0, and shards, from 1 on, each on a node. The home owns
// the limit and lends portions of it to the shards. A shard admits out of what it holds, by
// its own clock and without asking anyone, until its lease ends. It refuses what it cannot
// admit, and the proxy takes the rest of the demand to the home. While there is room the
// home admits it, and may lend the shard more on that occasion. When there is no room the
// proxy recalls what the shards hold: they return what they have not used and report what
// they have. Then the home decides again. Only the home denies, and only after it has heard
// from all shards that matter or found them unreachable. Units on loan count as used at the
// home until a report shows that fewer were used, or until no shard can use them any more.
//
// The idea is that of the escrow transactional method (O'Neil, "The Escrow Transactional
// Method", ACM TODS 1986): updates that commute proceed in parallel as long as a reserve
// set aside for them bounds their effect. Bounded counters (Balegas et al., "Extending
// Eventually Consistent Cloud Databases for Enforcing Numeric Invariants", SRDS 2015)
// apply it to replicas that hold rights and transfer them to each other. The differences:
//
//   - Rights expire. A loan is good for one lease, by the shard's own clock. So the home
//     regains the rights of a shard that is unreachable without hearing from it.
//   - Use expires too. A unit counts for the length of its window and then is free again,
//     on the shard that admitted it.
//   - One home lends. Shards do not transfer rights to each other, and none of them denies.
//   - Nothing is replicated. A node that loses its memory loses its own rights, and the
//     incarnation of its record keeps older messages from restoring them.
//   - Nodes do not talk to each other. Proxies carry all messages, and any of them may be
//     lost, late or repeated.
//
// The package holds what proxies need: the messages, in the order in which a request meets
// them, and Flow, the steps of a proxy. It is pure: it does no I/O and reads no clock. What
// the home and the shards do runs on the nodes, in Lua. Package model has the same in Go,
// as its executable specification. docs/adr/0003-lend-and-recall.md lists the rules and
// says why no limit is ever exceeded.
//
// Reading order: lease.go, messages.go, flow.go, then model.
package lease

import "slices"

// State identifies what a node charges: one window of one algorithm. Several limits may
// apply to the same state.
type State struct {
	Kind    byte  // Algorithm. A log and a counter of the same window are different states.
	Window  int64 // Length of the window in ms.
	Buckets int64 // Number of sub-windows of a counter; 0 for logs and fixed windows.
}

// Life returns the longest time in ms for which a unit counts after its admission: the
// window, and for counters one sub-window more.
func (s State) Life() int64 {
	if s.Buckets == 0 {
		return s.Window
	}
	return s.Window + (s.Window+s.Buckets-1)/s.Buckets
}

// Pair is a state and a limit on it.
type Pair struct {
	State
	Limit int64
}

// Units is an amount of one state.
type Units struct {
	State
	N int64
}

// Demand is N equal requests, combined into one entry. As many of them are admitted, from
// the first on, as there is room for. Requests without a cost make no Demand: they read
// and charge nothing.
type Demand struct {
	Pairs  []Pair // Limits that the caller gave.
	Strict bool   // Counters count their oldest sub-window in full, not by weight.
	Cost   int64  // Units that each request costs, at least 1.
	N      int64  // Number of requests.
}

// Fit returns how many of the requests fit into room units.
func (d *Demand) Fit(room int64) int64 {
	return max(0, min(d.N, room/d.Cost))
}

// Matches reports whether the demand is for exactly these limits, counted in this way.
// Rights that were lent for one demand serve all that match it.
func (d *Demand) Matches(pairs []Pair, strict bool) bool {
	return d.Strict == strict && slices.Equal(d.Pairs, pairs)
}

// Rules are the settings of the protocol. All proxies must use the same.
type Rules struct {
	Lease int64 // Time in ms for which a shard may use a loan, from before the loan was requested.
	Grace int64 // Time in ms that the home gives a loan to arrive before it lends the same shard more.
}
