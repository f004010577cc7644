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
	requests []*Request
	flow     *lease.Flow
	refusal  *wire.Refusal  // of the shard that was asked first, or nil
	reports  map[int]report // by shard, the latest
	recalled int            // times that shards were recalled for it

	known *wire.Admitted // the first answer to the id of the one request, if the home knows the id
}

// newGroup returns a group of equal requests. refusal is nil if no shard was asked.
func newGroup(requests []*Request, refusal *wire.Refusal) *group {
	r := requests[0].Request
	g := &group{requests: requests, refusal: refusal, reports: map[int]report{}}
	demand := lease.Demand{Pairs: wire.Pairs(&r.Spec), Strict: r.Strict, Cost: r.Cost, N: int64(len(requests))}
	if refusal == nil {
		g.flow = lease.NewFlow(demand, 0)
		return g
	}
	g.flow = lease.NewFlow(demand, refusal.Shard)
	g.flow.FromShard(0, refusal.Refusal)
	return g
}

// request returns what all requests of the group ask.
func (g *group) request() *engine.Request { return g.requests[0].Request }

// since returns when the first of the group's requests was handed in.
func (g *group) since() int64 {
	since := g.requests[0].Sent
	for _, r := range g.requests[1:] {
		since = min(since, r.Sent)
	}
	return since
}

// fail ends the group.
func (g *group) fail(f *Failure) {
	for _, r := range g.requests {
		r.fail(f)
	}
	g.requests = nil
}

// combine makes one group of those that the same shard refused and that ask for the
// same cost. What has an id of its own is asked for itself.
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
		if refusal == nil || g.refusal.Clock > refusal.Clock { // an older one may not hold any more
			refusal = g.refusal
		}
		out[i] = newGroup(slices.Concat(out[i].requests, g.requests), refusal)
	}
	return out
}

// decode reads the home's reply to the group's demand.
func (g *group) decode(c *Call) (*wire.HomeReply, *Failure) {
	if c.Failure != nil {
		return nil, c.Failure
	}
	r := g.request()
	var reply *wire.HomeReply
	var err error
	if r.Hold == nil {
		reply, err = wire.DecodeHomeReply(c.Reply, &r.Spec, g.flow.Demand().N, g.refusal)
	} else {
		reply, g.known, err = wire.DecodeHomeAdmit(c.Reply, r, g.refusal)
	}
	if err != nil {
		return nil, &Failure{Why: err.Error(), MaybeApplied: true}
	}
	return reply, nil
}

// call returns the call that asks the home on the group's behalf, for a key over so many shards.
func (g *group) call(shards int) *Call {
	r := g.request()
	args := wire.HomeArgs(&r.Spec, shards, g.flow.HomeRequest(), g.refusal)
	if r.Hold != nil {
		args = wire.HomeAdmitArgs(r, args)
	}
	return &Call{Function: lua.Lend, Args: args, Sent: g.since()}
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

// answer fills in what the home decided, having been asked at sent. It reports
// whether that is all.
func (s *Splitter) answer(g *group, reply *wire.HomeReply, sent int64, resets uint64) bool {
	g.flow.FromHome(reply.HomeReply)
	n := reply.Granted
	if g.flow.Step == lease.Finished {
		n = int64(len(g.requests))
	}
	r := g.request()
	var us [limit.MaxWindows]limit.Usage
	for i := range reply.Tallies {
		us[i] = reply.Tallies[i].Usage()
		if reply.Granted < n {
			us[i].Room = g.room(i, reply, sent)
		}
	}
	for j, request := range g.requests[:n] {
		request.Result.Decision = r.Decide(us[:r.N], reply.Clock, reply.Granted, int64(j))
	}
	if n > 0 {
		g.requests[0].Result.Lapsed = reply.Lapsed
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

// room returns ms before which window i cannot have room for one more request: what
// has to be free again is more than the holders hold whose first unit is free sooner.
func (g *group) room(i int, reply *wire.HomeReply, now int64) int64 {
	r, t := g.request(), &reply.Tallies[i]
	over := t.Used + reply.Granted*r.Cost + r.Wanted() - r.Windows[i].Limit
	if over <= 0 {
		return 0
	}
	held := []holder{{t.Own, t.First}}
	state := wire.State(&r.Spec, r.Windows[i])
	for _, l := range reply.Lent {
		first := int64(1)
		if p, ok := g.reports[l.Shard]; ok && p.Incarnation == l.Incarnation {
			first = max(1, p.of(state).first-(now-p.sent)-1)
		} else if f := g.refusal; f != nil && f.LeaseEnded && f.Shard == l.Shard && f.Incarnation == l.Incarnation {
			first = max(1, f.First[i]-(now-g.requests[0].Sent)-1)
		}
		held = append(held, holder{l.Out[i], first})
	}
	return soonest(held, over)
}

// holding is what a report says of one state.
type holding struct{ used, first int64 }

func (p *report) of(s lease.State) holding {
	for i, u := range p.Used {
		if u.State == s {
			return holding{u.N, p.First[i]}
		}
	}
	return holding{}
}

// holder is units in use in one place, and the ms until the first of them is free.
type holder struct{ units, first int64 }

// soonest returns the ms before which not as many units can be free again.
func soonest(held []holder, units int64) int64 {
	slices.SortFunc(held, func(a, b holder) int { return int(a.first - b.first) })
	for _, h := range held {
		if units -= h.units; units <= 0 {
			return max(h.first, 1)
		}
	}
	return 1
}
