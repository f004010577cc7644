package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// Some items, marked single, are not entries of a call of rl_decide: RL.INSPECT, requests with an id, multi-key
// requests, and the calls of package split. Each has a call of its own, except that consecutive requests with ids
// share one.

// maxSharing is the most requests in one shared call. Each keeps the node busy for tens of microseconds.
const maxSharing = 64

// addSingle appends the call that answers n items from item i on.
func (b *batch) addSingle(ctx context.Context, clock string, i, n int) {
	it := &b.items[i]
	f, args := lua.Inspect, [][]byte(nil)
	var stored []string
	var same []*engine.Request
	for _, it := range b.items[i : i+n] {
		stored = append(stored, string(shard.AppendStoredKey(nil, it.name(), it.shard)))
		same = append(same, it.req)
	}
	switch {
	case it.call != nil:
		f, args = it.call.Function, it.call.Args
	case it.multi != nil:
		f, args, stored = lua.All, wire.AllArgs(it.multi.requests), it.multi.stored()
	case it.readOnly:
		f = lua.Look
	case it.req.Op == engine.OpInspect:
	case n > 1 || it.req.Op == engine.OpRenew:
		f, args = wire.EachFunction(same), wire.EachArgs(same)
	case it.req.Op == engine.OpSettle:
		f, args = lua.Settle, wire.SettleArgs(it.req)
	default:
		f, args = lua.Admit, wire.AdmitArgs(it.req)
	}
	apart := b.q.clustered && len(stored) > 1
	if it.Asking {
		b.addService(ctx, "asking")
		if it.usesIDs() {
			// If the key had arrived without its ids, a request could be charged twice. With both keys
			// declared, the node refuses the call unless both have arrived.
			stored = append(stored, string(shard.AppendIDsKey(nil, it.name())))
		}
	}
	words := wire.KeysArgs(f, stored, clock, args, apart, b.q.scripted.Load())
	b.cmds = append(b.cmds, &command{StringCmd: redis.NewStringCmd(ctx, words...), item: i, items: n})
}

// usesIDs reports whether the function that answers an item alone uses the ids of its key.
func (it *pending) usesIDs() bool {
	if it.call != nil {
		return it.call.IDs
	}
	return it.req.Op != engine.OpInspect
}

// sharing returns how many items from item i on share a call.
func (b *batch) sharing(i int) int {
	end, refuses := i, b.q.refused.Load() != nil
	for end < min(i+maxSharing, len(b.items)) && b.items[end].shares(&b.items[i], refuses) {
		end++
	}
	return max(end-i, 1)
}

// shares reports whether an item may share the call of an earlier one: requests with ids do, unless misrouted or redirected with
// ASK. While the node refuses admissions, those have calls of their own, because a full node still runs the others.
func (it *pending) shares(first *pending, refuses bool) bool {
	return it.single && it.req != nil && it.req.Hold != nil && it.multi == nil && !it.misrouted && !it.Asking &&
		(!refuses || (it.req.Op == engine.OpDecide) == (first.req.Op == engine.OpDecide))
}

// applySingle sets the results of items that have a call of their own. If the reply is malformed, it
// returns an error.
func (b *batch) applySingle(cmd *command, reply string) error {
	it := &b.items[cmd.item]
	switch {
	case it.call != nil:
		it.call.Reply = reply
		return nil
	case it.multi != nil:
		return b.applyMultiKey(it, reply)
	case it.req.Op == engine.OpInspect:
		return b.applyInspect(it, reply)
	case cmd.items > 1 || it.req.Op == engine.OpRenew:
		return b.applyEach(cmd, reply)
	}
	return b.applyID(it, reply)
}

// applyID sets the result of a request with an id.
func (b *batch) applyID(it *pending, reply string) error {
	switch it.req.Op {
	case engine.OpRenew:
		renewed, lapsed, err := wire.DecodeRenew(reply)
		it.res.Renewed, it.res.Lapsed = renewed, lapsed
		return err
	case engine.OpSettle:
		settled, lapsed, err := wire.DecodeSettle(reply)
		if err == nil {
			it.res.Settled, it.res.Lapsed = settled, lapsed
		}
		return err
	}
	return b.applyAdmit(it, reply)
}

// applyEach sets the results of requests with ids that shared a call. A request that failed was not charged, and the
// others are not affected. A malformed reply is an error of the whole call.
func (b *batch) applyEach(cmd *command, reply string) error {
	replies, err := wire.DecodeEach(reply, cmd.items)
	if err != nil {
		return err
	}
	for i, r := range replies {
		j := cmd.item + i
		it := &b.items[j]
		switch {
		case wire.NotHere(r.Failure) && b.q.clustered && !it.misrouted:
			b.misrouteItem(j)
		case r.Failure != "":
			b.q.traffic.countFailedEntry(false)
			b.q.fail(it, lua.Locate(r.Failure))
		default:
			if err := b.applyID(it, r.Reply); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *batch) applyInspect(it *pending, reply string) error {
	states, divided, err := wire.DecodeStates(reply, b.q.Name())
	if err != nil {
		return err
	}
	it.res.States = states
	if divided {
		b.q.engine.leave(it, split.Request{})
	}
	return nil
}

// misrouteSingle is misroute for a call of its own. It returns false for a call about one key: the node redirects those.
func (b *batch) misrouteSingle(cmd *command) bool {
	switch it := &b.items[cmd.item]; {
	case cmd.service || it.multi == nil && cmd.items == 1:
		return false
	case it.multi != nil:
		it.multi.apart = true
	default:
		b.each(cmd, b.misrouteItem)
	}
	return true
}

// applyAdmit sets the result of a decision with an id.
func (b *batch) applyAdmit(it *pending, reply string) error {
	a, err := wire.DecodeAdmit(reply, it.req)
	if err != nil {
		return err
	}
	if a.Undecided && a.Granted == 0 && !a.Again {
		b.q.engine.leave(it, split.Request{})
		return nil
	}
	it.res.Decision = a.Decision()
	it.res.Again, it.res.Clock, it.res.Lapsed = a.Again, a.Clock, a.Lapsed
	if !a.Again {
		b.q.engine.learn(it.req, &a.Answer)
	}
	return nil
}

// learn passes a home's answer to package split, if the answer shows that the key is split or may have to be.
func (e *Engine) learn(r *engine.Request, a *wire.Answer) {
	if a.Status != wire.AtNode || a.Rate >= e.hotRate.Load() || e.splits.PossiblySplit.Load() > 0 {
		e.splits.Observe(r, 0, a)
	}
}
