package lease

// Refusal is what a shard says about itself when it does not admit all of a Demand.
type Refusal struct {
	Shard       int     `msg:"shard?,shard"`      // Number of the shard.
	Clock       int64   `msg:"clock,clock"`       // Shard's clock at the refusal, in ms.
	Incarnation int64   `msg:"incarnation,clock"` // Incarnation of the shard's record, see Report.
	Seq         int64   `msg:"seq,number"`        // Number of the newest loan or recall that the shard knows.
	LeaseEnded  bool    `msg:"ended"`             // The shard has no live lease. Then Used is as good as a report.
	Used        []Units `msg:"used"`              // Units in use, by pair of the Demand; only if LeaseEnded.
}

// HomeRequest is what a proxy sends to the home: the demand, and what the proxy has heard
// from shards since the demand arrived.
type HomeRequest struct {
	Demand      *Demand  // Requests that are still undecided.
	Refusal     *Refusal // Refusal of the shard that was asked first, which the home may lend to; nil if there is none.
	Reports     []Report // Reports on recalls that were sent since the demand arrived.
	Unreachable []int    // Shards that did not answer a recall.
}

// HomeReply is the home's reply to a HomeRequest. The requests beyond Granted are denied
// if Recalls is empty, and undecided otherwise.
type HomeReply struct {
	Granted int64    `msg:"granted,count"` // Number of requests admitted, from the first on.
	Recalls []Recall `msg:"recalls"`       // Recalls to send before the home can decide the rest.
	Loan    *Loan    `msg:"loan?"`         // Loan for the shard that refused, or nil.
}

// Loan lends rights to a shard. It states the total that the shard may have in use, which
// includes what it uses already, so that lost loans do not add up.
type Loan struct {
	Shard  int     `msg:"shard,shard"` // Number of the shard.
	Seq    int64   `msg:"seq,number"`  // The shard knows only older loans and recalls, or does not take it.
	Pairs  []Pair  `msg:"pairs"`       // Limits that the loan serves.
	Strict bool    `msg:"strict"`      // Demand.Strict of the requests that the loan serves.
	Held   []int64 `msg:"held,units"`  // Units that the shard may have in use, by pair.
	// Units that the home has left, by pair; only for the shard's replies.
	Headroom    []int64 `msg:"headroom,units"`
	Clock       int64   `msg:"clock,clock"`       // Clock of the Refusal that the loan answers. The lease starts then.
	Incarnation int64   `msg:"incarnation,clock"` // Incarnation of the Refusal that the loan answers.
}

// Recall asks a shard to return what it has not used, and to report.
type Recall struct {
	Shard int `msg:"shard,shard"` // Number of the shard.
	// Number of the newest loan to that shard, which is void if it arrives later.
	Seq      int64       `msg:"seq,number"`
	EndLease bool        `msg:"end_lease"` // The lease ends too, because it serves other limits than the caller's.
	States   []StateName `msg:"states"`    // States to report.
	Strict   bool        `msg:"strict"`    // Count the oldest sub-window of counters in full in the report.
}

// Report is a shard's answer to a Recall.
//
// It counts only for the incarnation of the record that the loan went to. A node that has lost its memory does not know
// what it admitted. It makes a record of another incarnation, so the units on loan stay counted at the home.
type Report struct {
	Shard       int     `msg:"shard,shard"`       // Number of the shard.
	Seq         int64   `msg:"seq,number"`        // Number of the recall.
	Incarnation int64   `msg:"incarnation,clock"` // Incarnation of the shard's record; 0 if there is none.
	Stale       bool    `msg:"stale"`             // The shard knows a newer loan and has returned nothing.
	LeaseEnded  bool    `msg:"ended"`             // The shard has no live lease.
	Strict      bool    `msg:"strict"`            // Used counts the oldest sub-window of counters in full.
	Used        []Units `msg:"used"`              // Units in use, by state of the recall; counts for nothing if Stale.
}
