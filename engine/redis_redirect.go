package engine

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/shard"
)

// maxHops is how often a request is sent on before its policy answers. One is
// usual; more means that nodes disagree on who has a slot.
const maxHops = 8

// redirect hands the items of a command to the node that the answer names, if it is
// MOVED or ASK: such a command has not run. It returns whether it did.
func (b *batch) redirect(n *node, cmd command, err error) bool {
	if err == nil || n.engine.finder == nil || cmd.item == loading {
		return false
	}
	addr, moved := redis.IsMovedError(err)
	if !moved {
		to, ask := redis.IsAskError(err)
		if !ask {
			return false
		}
		addr = to
	}
	n.engine.finder.wake()
	to := n.engine.finder.node(n.backend, fullAddress(addr, n.name))
	if to == nil {
		return false
	}
	var items []item
	send := func(j int) bool {
		it := b.items[j]
		if it.hops++; it.hops > maxHops {
			return false
		}
		it.asking = !moved
		items = append(items, it)
		return true
	}
	ok := true
	b.each(cmd, func(j int) { ok = send(j) && ok })
	if !ok {
		return false
	}
	// From here on these items are the other node's: nothing of theirs is touched.
	b.each(cmd, func(j int) { b.items[j] = item{} })
	to.submit(items)
	return true
}

// buildSlots is build for a node of a cluster. The keys of one call have to lie in
// one slot, and while that moves to another node a call of two keys may find one
// here and one there: so a call has one key.
func (b *batch) buildSlots(ctx context.Context, clock string) {
	if b.open == nil {
		b.open = make(map[uint16]*call)
	}
	clear(b.open)
	for i := range b.items {
		it := &b.items[i]
		c := b.open[it.slot]
		if it.alone() {
			if c != nil {
				b.send(ctx, clock, c)
				delete(b.open, it.slot)
			}
			b.single(ctx, clock, i)
			continue
		}
		if c != nil && (c.asking != it.asking || !c.about(it) || !c.add(it, i, b.next)) {
			b.send(ctx, clock, c)
			c = nil
		}
		if c == nil {
			c = b.call()
			c.asking = it.asking
			c.add(it, i, b.next)
			b.open[it.slot] = c
		}
	}
	for _, c := range b.calls[:b.used] {
		if !c.sent {
			b.send(ctx, clock, c)
		}
	}
}

// about tells whether the call's first entry is about the item's key.
func (c *call) about(it *item) bool {
	var buf [256]byte
	e := &c.entries[0]
	return string(c.keys[e.keyFrom:e.keyTo]) == string(shard.AppendStoredKey(buf[:0], it.req.Key, it.part))
}

// ask precedes a command that a node answers only to who was sent there by ASK.
func (b *batch) ask(ctx context.Context) {
	b.cmds = append(b.cmds, command{redis.NewStringCmd(ctx, "asking"), nil, loading})
}
