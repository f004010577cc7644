package lease

// Refusal is what a shard says about itself when it does not admit all of a Demand.
type Refusal struct {
	Shard       int     // Number of the shard.
	Clock       int64   // Shard's clock at the refusal, in ms.
	Incarnation int64   // Incarnation of the shard's record, see Report.
	Seq         int64   // Number of the newest loan or recall that the shard knows.
	LeaseEnded  bool    // The shard has no live lease. Then Used is as good as the report on a recall numbered Seq.
	Used        []Units // Units in use, by pair of the Demand; only if LeaseEnded.
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
	Granted int64    // Number of requests admitted, from the first on.
	Recalls []Recall // Recalls to send before the home can decide the rest.
	Loan    *Loan    // Loan for the shard that refused, or nil.
}

// Loan lends rights to a shard. It states the total that the shard may have in use, which
// includes what it uses already, so that lost loans do not add up.
type Loan struct {
	Shard int // Number of the shard.
	// Number of the loan. A shard takes a loan only if it is newer than every loan and recall it knows.
	Seq         int64
	Pairs       []Pair  // Limits that the loan serves.
	Strict      bool    // Demand.Strict of the requests that the loan serves.
	Held        []int64 // Units that the shard may have in use, by pair.
	Headroom    []int64 // Units that the home has left, by pair; only for the shard's replies.
	Clock       int64   // Clock of the Refusal that the loan answers. The lease starts then.
	Incarnation int64   // Incarnation of the Refusal that the loan answers.
}

// Recall asks a shard to return what it has not used, and to report.
type Recall struct {
	Shard    int     // Number of the shard.
	Seq      int64   // Number of the newest loan to that shard. If the loan has not arrived yet, the recall voids it.
	EndLease bool    // The lease ends too, because it serves other limits than the caller's.
	States   []State // States to report.
	Strict   bool    // Count the oldest sub-window of counters in full in the report.
}

// Report is a shard's answer to a Recall.
//
// It counts only for the incarnation of the record that the loan went to. A node that has
// lost its memory does not know what it admitted. It makes a record of another incarnation,
// so the units on loan stay counted at the home.
type Report struct {
	Shard       int     // Number of the shard.
	Seq         int64   // Number of the recall.
	Incarnation int64   // Incarnation of the shard's record; 0 if there is none.
	Stale       bool    // The shard knows a newer loan and has returned nothing.
	LeaseEnded  bool    // The shard has no live lease.
	Strict      bool    // Used counts the oldest sub-window of counters in full.
	Used        []Units // Units in use, by state of the recall; empty if Stale or without a record.
}
