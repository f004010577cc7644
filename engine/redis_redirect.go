package engine

import (
	"context"
	"strings"

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

// takes tells whether the item may be in the call. The keys of a slot that is on its way
// to another node are here and there, and the node says which way to go for one key only.
func (c *call) takes(it *item) bool {
	return c.stray == it.stray && c.asking == it.asking && (!it.stray && !it.asking || c.about(it))
}

// about tells whether the call's first entry is about the item's key.
func (c *call) about(it *item) bool {
	var buf [256]byte
	e := &c.entries[0]
	return string(c.keys[e.keyFrom:e.keyTo]) == string(shard.AppendStoredKey(buf[:0], it.req.Key, it.part))
}

// notHere begins what a cluster's node says of a key that it has not, in a script
// whose keys were not declared. The script had read nothing.
const notHere = "ERR Script attempted to "

// astray takes the items of an entry out of the batch, if their node said for such a
// reason that it has not got the key: asked again and alone, it says who has. It
// returns whether they are.
func (b *batch) astray(e *asked, n *node, why string) bool {
	if !b.slots || b.items[e.first].stray || !strings.HasPrefix(why, notHere) {
		return false
	}
	b.strays(e, n)
	return true
}

// demoted is astray for all entries of a call, which a node refused that is no longer a
// master. To who names one key it says who is.
func (b *batch) demoted(n *node, cmd command, err error) bool {
	if !b.slots || cmd.call == nil || cmd.call.stray || !hasCode(err, strayed) {
		return false
	}
	for i := range cmd.call.entries {
		b.strays(&cmd.call.entries[i], n)
	}
	return true
}

func (b *batch) strays(e *asked, n *node) {
	for _, it := range b.move(e, 0, n) {
		it.stray = true
		b.stray = append(b.stray, it)
	}
}

// resubmit hands in what went astray. It is one batch again, so what a pipeline
// asks of a key keeps its order.
func (b *batch) resubmit(n *node) {
	if len(b.stray) > 0 {
		n.submit(b.stray)
		clear(b.stray)
		b.stray = b.stray[:0]
	}
}

// ask precedes a command that a node answers only to who was sent there by ASK.
func (b *batch) ask(ctx context.Context) {
	b.cmds = append(b.cmds, command{redis.NewStringCmd(ctx, "asking"), nil, loading})
}
