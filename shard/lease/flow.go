package lease

import "slices"

// Step is what a proxy does next with a demand.
type Step uint8

// The steps. AskShard and AskHome may charge units and are never sent twice. A recall is idempotent and may be.
const (
	AskShard     Step = iota // Send Demand to Shard.
	AskHome                  // Send HomeRequest to the home.
	RecallShards             // Send all Recalls, in parallel.
	Finished                 // Granted requests were admitted, the others are denied.
)

// Flow is the sequence of steps by which a proxy decides one demand on a split key. If the proxy crashes on the way,
// some rights stay unused until they are recalled or expire. No right is ever used twice.
type Flow struct {
	Step    Step     // What to do next.
	Shard   int      // Shard that is asked first; 0 for the home.
	Granted int64    // Requests admitted so far.
	Recalls []Recall // Recalls to send in the step RecallShards.

	demand  Demand // Demand that is still undecided.
	request HomeRequest
}

// NewFlow returns a flow that begins at a shard, or at the home if shard is 0. Use 0 if the
// shard is known to be unreachable, or if the key's shards are unknown.
func NewFlow(d Demand, shard int) *Flow {
	f := &Flow{Shard: shard, demand: d}
	f.request.Demand = &f.demand
	if shard == 0 {
		f.Step = AskHome
	}
	return f
}

// Demand returns the demand that is still undecided.
func (f *Flow) Demand() *Demand { return &f.demand }

// HomeRequest returns the request for the step AskHome.
func (f *Flow) HomeRequest() *HomeRequest { return &f.request }

// FromShard continues the flow with the shard's answer: the number of requests granted, and
// the refusal of the rest. The refusal is ignored if all were granted.
func (f *Flow) FromShard(granted int64, refusal Refusal) {
	f.grant(granted)
	if f.demand.N == 0 {
		f.Step = Finished
		return
	}
	refusal.Shard = f.Shard
	f.request.Refusal, f.Step = &refusal, AskHome
}

// FromHome continues the flow with the home's reply. The caller sends the reply's loan, if
// any, to the shard, once, and does not wait for an answer.
func (f *Flow) FromHome(r HomeReply) {
	f.grant(r.Granted)
	f.Recalls, f.Step = r.Recalls, RecallShards
	if f.demand.N == 0 || len(r.Recalls) == 0 {
		f.Recalls, f.Step = nil, Finished
	}
}

// FromRecalls continues the flow when all recalls were answered or given up. unreachable
// lists the shards that did not answer. The reports may come from another flow's recalls,
// provided that those were sent after this flow's demand arrived.
func (f *Flow) FromRecalls(reports []Report, unreachable []int) {
	q := &f.request
	for _, r := range reports {
		q.Reports = slices.DeleteFunc(q.Reports, func(old Report) bool {
			return old.Shard == r.Shard && old.Seq <= r.Seq
		})
		q.Reports = append(q.Reports, r)
	}
	q.Unreachable, f.Step = append(q.Unreachable, unreachable...), AskHome
}

// grant records that n more requests were admitted.
func (f *Flow) grant(n int64) {
	f.Granted += n
	f.demand.N -= n
}
