package split

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// group is equal requests that are resolved together, as one demand.
type group struct {
	requests []*Request          // requests without a result so far, in order
	flow     *lease.Flow         // the state of the protocol
	refusal  *wire.Refusal       // the refusal of the shard that was asked first, or nil
	reports  map[int]timedReport // the latest report of each shard
	recalled int                 // rounds of recalls for the group

	known *wire.Admitted // the first answer to the id of the only request; nil if the home does not know the id
}

// newGroup returns a group of equal requests. refusal is nil if no shard was asked.
func newGroup(requests []*Request, refusal *wire.Refusal) *group {
	r := requests[0].Request
	g := &group{requests: requests, refusal: refusal, reports: map[int]timedReport{}}
	demand := lease.Demand{Pairs: wire.Pairs(&r.Spec), Strict: r.Strict(), Cost: r.Cost, N: int64(len(requests))}
	if refusal == nil {
		g.flow = lease.NewFlow(demand, 0)
		return g
	}
	g.flow = lease.NewFlow(demand, refusal.Shard)
	g.flow.FromShard(0, refusal.Refusal)
	return g
}

// request returns the first request of the group, which all others equal.
func (g *group) request() *engine.Request { return g.requests[0].Request }

// since returns the earliest Sent of the group's requests.
func (g *group) since() int64 {
	since := g.requests[0].Sent
	for _, r := range g.requests[1:] {
		since = min(since, r.Sent)
	}
	return since
}

// fail ends the group: all of its requests fail.
func (g *group) fail(f *Failure) {
	for _, r := range g.requests {
		r.fail(f)
	}
	g.requests = nil
}

// combine merges groups that were refused by the same shard and have the same cost. A request
// with an id of its own is never merged.
func combine(all []*group) []*group {
	var out []*group
	for _, g := range all {
		i := slices.IndexFunc(out, func(o *group) bool {
			return o.flow.Shard == g.flow.Shard && o.request().Cost == g.request().Cost &&
				o.request().Hold == nil && g.request().Hold == nil
		})
		if i < 0 {
			out = append(out, g)
			continue
		}
		refusal := out[i].refusal
		if refusal == nil || g.refusal.Clock > refusal.Clock { // an older one may be outdated
			refusal = g.refusal
		}
		out[i] = newGroup(slices.Concat(out[i].requests, g.requests), refusal)
	}
	return out
}

// decode decodes the home's reply to the group's demand.
func (g *group) decode(c *Call) (*wire.HomeReply, *Failure) {
	if c.Failure != nil {
		return nil, c.Failure
	}
	r := g.request()
	var reply *wire.HomeReply
	var err error
	if r.Hold == nil {
		reply, err = wire.DecodeHomeReply(c.Reply, &r.Spec, g.flow.Demand().N, g.flow.HomeRequest().Refusal)
	} else {
		reply, g.known, err = wire.DecodeHomeAdmit(c.Reply, r, g.flow.HomeRequest().Refusal)
	}
	if err != nil {
		return nil, &Failure{Why: err.Error(), MaybeApplied: true}
	}
	return reply, nil
}

// call returns the call that asks the home for the group. shards is the number of shards that the key should have.
func (g *group) call(shards int) *Call {
	r := g.request()
	asked := wire.NewLend(&r.Spec, shards, g.flow.HomeRequest())
	if r.Hold != nil {
		asked.ID = string(wire.IDFields(r))
	}
	return &Call{Function: lua.Lend, Args: wire.Args(asked), Sent: g.since(), IDs: r.Hold != nil}
}

// answerAgain answers a group whose id is known, and reports whether it is.
func (g *group) answerAgain() bool {
	if g.known == nil {
		return false
	}
	answered := g.requests[0]
	answered.Result.Decision, answered.Result.Again = g.known.Decision(), true
	g.requests = nil
	answered.done()
	return true
}

// answer sets the results of the requests that the home decided. sent is when the home was asked,
// and resets is the count of resets then. answer reports whether all requests have their result.
func (s *Splitter) answer(g *group, reply *wire.HomeReply, sent int64, resets uint64) bool {
	g.flow.FromHome(reply.HomeReply)
	n := reply.Granted
	if g.flow.Step == lease.Finished {
		n = int64(len(g.requests))
	}
	r := g.request()
	var us [limit.MaxWindows]limit.Usage
	for i := range reply.Tallies {
		us[i] = limit.Usage{Used: reply.Tallies[i].Used, Empty: g.empty(i, reply)}
		if reply.Granted < n {
			us[i].Room = g.room(i, reply, sent)
		}
	}
	for j, request := range g.requests[:n] {
		request.Result.Decision = r.Decide(us[:r.N], reply.Clock, reply.Granted, int64(j))
	}
	if n > 0 {
		g.requests[0].Result.Clock, g.requests[0].Result.Lapsed = reply.Clock, reply.Lapsed
	}
	if reply.Granted < n && !reply.Held {
		last := g.requests[n-1]
		s.remember(last.Request, last.Result, sent, resets)
	}
	answered := g.requests[:n]
	g.requests = g.requests[n:]
	for _, request := range answered {
		request.done()
	}
	return len(g.requests) == 0
}

// empty returns the ms until window i is empty: until the home and all shards have no unit in use any more. A shard
// that has not reported may have admitted until now.
func (g *group) empty(i int, reply *wire.HomeReply) (latest int64) {
	r, t := g.request(), &reply.Tallies[i]
	if t.Own > 0 {
		latest = t.Empty
	}
	state := wire.State(&r.Spec, r.Windows[i])
	for _, l := range reply.Lent {
		empty := l.Empty[i]
		if p, ok := g.reports[l.Shard]; ok && p.Incarnation == l.Incarnation {
			empty = p.of(state).empty
		}
		if l.Out[i] > 0 {
			latest = max(latest, empty)
		}
	}
	return latest
}

// room returns a lower bound of the ms until window i has room for one more request. No unit of
// a user is free before its first one. So the bound is the time at which enough units would be
// free if each user freed all of its units together with its first. If the home counts more than
// the users have in use, a lease for a lower limit is in the way, which may end at any time.
func (g *group) room(i int, reply *wire.HomeReply, now int64) int64 {
	r, t := g.request(), &reply.Tallies[i]
	over := t.Used + reply.Granted*r.Cost + r.Wanted() - r.Windows[i].Limit
	switch {
	case over <= 0:
		return 0
	case t.Used > t.Own-reply.Granted*r.Cost+t.Lent:
		return 1
	}
	held := []user{{t.Own, t.First}}
	state := wire.State(&r.Spec, r.Windows[i])
	for _, l := range reply.Lent {
		first := int64(1)
		if p, ok := g.reports[l.Shard]; ok && p.Incarnation == l.Incarnation {
			first = max(1, p.of(state).first-(now-p.sent)-1)
		} else if f := g.refusal; f != nil && f.LeaseEnded && f.Shard == l.Shard && f.Incarnation == l.Incarnation {
			first = max(1, f.First[i]-(now-g.requests[0].Sent)-1)
		}
		held = append(held, user{l.Out[i], first})
	}
	return soonest(held, over)
}

// holding is the part of a report about one state.
type holding struct {
	used  int64 // units in use
	first int64 // ms until the first of them is free
	empty int64 // ms until all of them are
}

// of returns what the report says about a state.
func (p *timedReport) of(s lease.StateName) holding {
	for i, u := range p.Used {
		if u.StateName == s {
			return holding{u.N, p.First[i], p.Empty[i]}
		}
	}
	return holding{}
}

// user is the home or a shard that has units in use.
type user struct {
	units int64 // units in use
	first int64 // ms until the first of them is free
}

// soonest returns a lower bound of the ms until that many units of the users are free.
func soonest(held []user, units int64) int64 {
	slices.SortFunc(held, func(a, b user) int { return int(a.first - b.first) })
	for _, h := range held {
		if units -= h.units; units <= 0 {
			return max(h.first, 1)
		}
	}
	return 1
}
