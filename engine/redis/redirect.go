package redis

import (
	"bytes"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// maxHops is how often an item is redirected before its policy answers. One hop is
// usual; more mean that nodes disagree on which of them owns a slot.
const maxHops = 8

// redirect takes the items of a command out of the batch, to be submitted to the node that
// the error names, if it is MOVED or ASK: such a command has not run. It reports whether it did.
func (b *batch) redirect(cmd *command, err error) bool {
	addr, moved := redis.IsMovedError(err)
	if !moved {
		var ask bool
		if addr, ask = redis.IsAskError(err); !ask {
			return false
		}
	}
	to := b.q.engine.fleet.Redirected(b.q.Node, addr)
	if to == nil {
		return false
	}
	late, follows := false, false
	b.each(cmd, func(j int) {
		it := &b.items[j]
		late = late || it.hops == maxHops
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
	other := b.q.engine.queue(to)
	b.each(cmd, func(j int) {
		it := b.items[j]
		it.hops++
		it.asking = !moved
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
	if !b.q.clustered || !backend.Demoted(err) {
		return false
	}
	if cmd.entries == nil {
		return b.misrouteSingle(cmd)
	}
	if cmd.entries.misrouted {
		return false
	}
	for at := range cmd.entries.first {
		b.misrouteEntry(cmd.entries, at)
	}
	return true
}

// misrouteEntry takes the items of an entry out of the batch, to be submitted again
// alone: the node then names the node that has their key.
func (b *batch) misrouteEntry(c *entries, at int) { b.eachOf(c, at, b.misrouteItem) }

// misrouteItem takes an item out of the batch, to be submitted again alone.
func (b *batch) misrouteItem(j int) {
	it := b.items[j]
	it.misrouted = true
	b.misrouted = append(b.misrouted, it)
	b.items[j] = pending{}
}

// resubmit submits the redirected items, and the misrouted ones again: to each node as one
// batch, so that a pipeline's requests about a key keep their order.
func (b *batch) resubmit() {
	for to, items := range b.redirected {
		delete(b.redirected, to) // the other queue owns these items now
		to.submit(items)
	}
	b.q.submit(b.misrouted)
	clear(b.misrouted)
	b.misrouted = b.misrouted[:0]
}
