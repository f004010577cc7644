package redis

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// withID is a request with an id. Consecutive ones share a call.
type withID struct{ request }

// maxSharing is the most requests in one shared call. Each keeps the node busy for tens of microseconds.
const maxSharing = 64

// sharing returns how many items from item i on share a call: requests with ids do, unless misrouted or redirected with
// ASK. While the node refuses admissions, those have calls of their own, because a full node still runs the others.
func (b *batch) sharing(i int) int {
	end, refuses, decides := i, b.q.Refused.Load() != nil, b.items[i].decides()
	for end < min(i+maxSharing, len(b.items)) {
		it := &b.items[end]
		if it.task != (withID{}) || it.misrouted || it.Asking || refuses && it.decides() != decides {
			break
		}
		end++
	}
	return max(end-i, 1)
}

// decides reports whether there is an item, and it asks for a decision, as calls of package split do.
func (it *item) decides() bool { return it != nil && (it.req == nil || it.req.Op == engine.OpDecide) }

func (withID) call(items []item) (f *lua.Function, args [][]byte, stored []string) {
	var requests []*engine.Request
	for i := range items {
		requests, stored = append(requests, items[i].req), append(stored, items[i].stored())
	}
	switch r := requests[0]; {
	case len(items) > 1 || r.Op == engine.OpRenew:
		return wire.EachFunction(requests), wire.EachArgs(requests), stored
	case r.Op == engine.OpSettle:
		return lua.Settle, wire.SettleArgs(r), stored
	default:
		return lua.Admit, wire.AdmitArgs(r), stored
	}
}

// refused implements ownCall. A node that is no longer a master refuses a call about several keys, but redirects one
// about one key.
func (withID) refused(b *batch, c *ownCommand, err error) bool {
	again := b.q.clustered && backend.Demoted(err) && c.items > 1
	if again {
		c.each(b, b.misroute)
	}
	return again
}

// apply implements ownCall. A request that failed in a shared call was not charged, and the others are not affected.
func (withID) apply(b *batch, c *ownCommand, reply string) error {
	if it := c.first(b); c.items == 1 && it.req.Op != engine.OpRenew {
		return b.applyID(it, reply)
	}
	replies, err := wire.DecodeEach(reply, c.items)
	if err != nil {
		return err
	}
	for i, r := range replies {
		j := c.from + i
		it := &b.items[j]
		switch {
		case wire.NotHere(r.Failure) && b.q.clustered && !it.misrouted:
			b.misroute(j)
		case r.Failure != "":
			b.q.traffic.FailedEntry(false)
			b.q.fail(it, lua.Locate(r.Failure))
		default:
			if err := b.applyID(it, r.Reply); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyID sets the result of a request with an id.
func (b *batch) applyID(it *item, reply string) (err error) {
	switch it.req.Op {
	case engine.OpRenew:
		it.res.Renewed, it.res.Lapsed, err = wire.DecodeRenew(reply)
		return err
	case engine.OpSettle:
		settled, lapsed, err := wire.DecodeSettle(reply)
		if err == nil {
			it.res.Settled, it.res.Lapsed = settled, lapsed
		}
		return err
	}
	a, err := wire.DecodeAdmit(reply, it.req)
	switch {
	case err != nil:
		return err
	case a.Undecided && a.Granted == 0 && !a.Again:
		it.leave(nil)
		return nil
	case !a.Again && b.learn(it, it.req, &a.Answer):
		b.await(it)
		return nil
	}
	it.res.Decision = a.Decision()
	it.res.Again, it.res.Clock, it.res.Lapsed = a.Again, a.Clock, a.Lapsed
	return nil
}

// inspect is an RL.INSPECT.
type inspect struct {
	request
	readOnly bool // the node has refused it because it refuses all that may write
}

func (inspect) work(*item) time.Duration { return wire.InspectWork }

func (inspect) usesIDs() bool { return false }

func (t inspect) call(items []item) (*lua.Function, [][]byte, []string) { //nolint:unparam // of an interface
	f := lua.Inspect
	if t.readOnly {
		f = lua.Look
	}
	return f, nil, []string{items[0].stored()}
}

// refused implements ownCall. A node that refuses all that may write runs a function that cannot.
func (t inspect) refused(b *batch, c *ownCommand, err error) bool {
	again := !t.readOnly && backend.RefusesWrites(err)
	if again {
		c.first(b).task = inspect{readOnly: true}
		b.misroute(c.from)
	}
	return again
}

func (inspect) apply(b *batch, c *ownCommand, reply string) error {
	states, divided, err := wire.DecodeStates(reply, b.q.Name())
	if err != nil {
		return err
	}
	it := c.first(b)
	it.res.States = states
	if divided {
		it.leave(nil)
	}
	return nil
}
