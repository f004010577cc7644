// Package lease is a protocol by which several nodes enforce one limit exactly: one of them lends portions of the limit
// to the others and recalls them.
//
// A split key has one home, number 0, and shards, numbered from 1 on. Each is on a node. The home owns the limit and
// lends portions of it to the shards. A shard admits out of what it holds, by its own clock and without asking anyone,
// until its lease ends. It refuses what it cannot admit, and the proxy takes the rest of the demand to the home. While
// there is room the home admits it, and may lend the shard more on that occasion. When there is no room the proxy
// recalls what the shards hold: they return what they have not used and report what they have. Then the home decides
// again. Only the home denies, and only after it has heard from all shards that matter or found them unreachable. Units
// on loan count as used at the home until a report shows that fewer were used, or until no shard can use them any more.
//
// The idea is that of the escrow transactional method (O'Neil, "The Escrow Transactional Method", ACM TODS 1986):
// updates that commute proceed in parallel as long as a reserve set aside for them bounds their effect. Bounded
// counters (Balegas et al., "Extending Eventually Consistent Cloud Databases for Enforcing Numeric Invariants", SRDS
// 2015) apply the idea to replicas that hold rights and transfer them to each other. This protocol differs from theirs:
//
//   - Rights expire. A loan is good for one lease, by the shard's own clock. So the home
//     regains the rights of a shard that is unreachable without hearing from it.
//   - Use expires too. A unit counts for the length of its window. Then it is free again on
//     the shard that admitted it.
//   - One home lends. Shards do not transfer rights to each other, and none of them denies.
//   - Nothing is replicated. A node that loses its memory loses its own rights, and the
//     incarnation of its record keeps older messages from restoring them.
//   - Nodes do not talk to each other. Proxies carry all messages, and any of them may be
//     lost, late or repeated.
//
// The package has the proxies' side of the protocol: the messages, in the order in which a request meets them, and
// Flow, the steps of a proxy. It is pure: it does no I/O and reads no clock. The home's and the shards' side runs on
// the nodes, in Lua. Package model is the executable specification of that side, in Go.
// docs/adr/0003-lend-and-recall.md lists the rules and says why no limit is ever exceeded.
//
// The tags of fields are their names and types on the wire, see package wire.
//
// Reading order: lease.go, messages.go, flow.go, then model.
package lease

import "slices"

// StateName identifies what a node charges: one window of one algorithm. Several limits may apply to the same state.
type StateName struct {
	Kind    byte  // Number of the algorithm. A log and a counter of the same window are different states.
	Window  int64 // Length of the window in ms.
	Buckets int64 // Number of sub-windows of a counter, or what names a calendar window; 0 for other states.
}

// Life returns the longest time in ms for which a unit counts after its admission: the
// window, and for counters one sub-window more.
func (s StateName) Life() int64 {
	if s.Buckets == 0 {
		return s.Window
	}
	return s.Window + (s.Window+s.Buckets-1)/s.Buckets
}

// Pair is a state and a limit on it.
type Pair struct {
	StateName `msg:"state"`
	Limit     int64 `msg:"limit,units"`
}

// Units is a number of units of one state.
type Units struct {
	StateName `msg:"state"`
	N         int64 `msg:"units,units"`
}

// Demand is N equal requests, combined into one entry. Of these, the first few for which there
// is room are admitted. A request with cost 0 is never part of a Demand, because it only reads.
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
	Lease int64 // Time in ms for which a shard may use a loan, counted from its refusal that the loan answers.
	Grace int64 // Time in ms for which the home waits for a loan to arrive before it lends the same shard more.
}
