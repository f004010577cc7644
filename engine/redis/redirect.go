package redis

import (
	"bytes"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// redirect takes the items of a command out of the batch, to be submitted to the node that
// the error names, if it is MOVED or ASK: such a command has not run. It reports whether it did.
func (b *batch) redirect(cmd *command, err error) bool {
	to, asking := b.q.engine.fleet.Redirected(b.q.Node, err, false)
	if to == nil {
		return false
	}
	late, follows := false, false
	b.each(cmd, func(j int) {
		it := &b.items[j]
		late = late || it.Lost()
		follows = follows || slices.ContainsFunc(b.misrouted, it.follows)
	})
	if late {
		return false
	}
	if follows { // it must not arrive before an earlier item, which makes one hop more
		b.each(cmd, b.misrouteItem)
		return true
	}
	if b.redirected == nil {
		b.redirected = make(map[*queue][]pending)
	}
	other := b.q.engine.queues.Of(to)
	b.each(cmd, func(j int) {
		it := b.items[j]
		it.Redirect(asking)
		b.redirected[other] = append(b.redirected[other], it)
		b.items[j] = pending{}
	})
	return true
}

// follows reports whether the item belongs to the same pipeline as an earlier one, and is about the same key.
func (it *pending) follows(earlier pending) bool {
	return it.wait != nil && it.wait == earlier.wait && bytes.Equal(it.name(), earlier.name())
}

// misroute takes the items of a call out of the batch, if the node refused it because
// it is no longer a master. They are submitted again alone: the node redirects a call
// about one key.
func (b *batch) misroute(cmd *command, err error) bool {
	switch {
	case !b.q.clustered || !backend.Demoted(err):
		return false
	case cmd.entries == nil:
		return b.misrouteSingle(cmd)
	case cmd.entries.misrouted:
		return false
	}
	b.each(cmd, b.misrouteItem)
	return true
}

// readOnly takes an RL.INSPECT out of the batch, if the node refused it because it refuses all that may write. It is submitted
// again, once, and then asked for with a function that cannot write.
func (b *batch) readOnly(cmd *command, err error) bool {
	it := &b.items[cmd.first()]
	again := !cmd.service && it.req != nil && it.req.Op == engine.OpInspect && !it.readOnly && backend.RefusesWrites(err)
	if again {
		it.readOnly = true
		b.misrouteItem(cmd.item)
	}
	return again
}

// misrouteItem takes an item out of the batch, to be submitted again alone: the node then names the node that has its key.
func (b *batch) misrouteItem(j int) {
	b.items[j].misrouted = true
	b.misrouted = append(b.misrouted, b.items[j])
	b.items[j] = pending{}
}

// resubmit submits the redirected items, and the misrouted ones again: to each node as one
// batch, so that a pipeline's requests about a key keep their order.
func (b *batch) resubmit() {
	for to, items := range b.redirected {
		delete(b.redirected, to) // the other queue owns these items now
		to.submit(items, runCost(items))
	}
	b.q.submit(b.misrouted, runCost(b.misrouted))
	clear(b.misrouted)
	b.misrouted = b.misrouted[:0]
}
