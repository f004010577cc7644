package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// command is a command that go-redis never sends twice.
type command struct {
	*redis.StringCmd
	call *call // the decisions it asks for, or
	item int   // the one item that it answers, or loading
}

// loading marks a command that answers no item: it loads a script.
const loading = -1

func (command) NoRetry() bool { return true }

// batch is what goes to a node in one round trip. A worker uses one again and again.
type batch struct {
	items []item
	next  []int // next[i]: the item after i in its entry
	calls []*call
	used  int // of calls
	cmds  []redis.Cmder
	slots bool   // the node is one of a cluster
	stray []item // whose keys the node has not, though it should: they are asked again

	sent   time.Duration // when it was sent, by the engine's own clock
	resets uint64        // the resets there had been by then
}

// build turns the items into commands. Decisions and resets share calls; what else
// there is ends the call before it, so that order holds. With slots, the node is one
// of a cluster.
func (b *batch) build(ctx context.Context, clock string, slots bool) {
	b.next = append(b.next[:0], make([]int, len(b.items))...)
	b.cmds, b.used, b.slots = b.cmds[:0], 0, slots
	var open *call
	end := func() {
		if open != nil {
			b.send(ctx, clock, open)
			open = nil
		}
	}
	for i := range b.items {
		it := &b.items[i]
		if it.alone() {
			end()
			b.single(ctx, clock, i)
			continue
		}
		if open != nil && open.takes(it) && open.add(it, i, b.next) {
			continue
		}
		end()
		open = b.call()
		open.stray, open.asking = it.stray, it.asking
		open.add(it, i, b.next)
	}
	end()
}

// call returns an empty call.
func (b *batch) call() *call {
	if b.used == len(b.calls) {
		b.calls = append(b.calls, new(call))
	}
	b.used++
	c := b.calls[b.used-1]
	c.reset()
	return c
}

func (b *batch) send(ctx context.Context, clock string, c *call) {
	if c.asking {
		b.ask(ctx)
	}
	b.cmds = append(b.cmds, command{redis.NewStringCmd(ctx, c.build(clock, b.slots)...), c, 0})
}

// alone tells whether the item is a command of its own.
func (it *item) alone() bool { return it.run != nil || it.req.Op == OpInspect }

func (b *batch) single(ctx context.Context, clock string, i int) {
	it := &b.items[i]
	if it.asking {
		b.ask(ctx)
	}
	if it.run != nil {
		b.cmds = append(b.cmds, command{it.run.command(ctx, clock), nil, i})
		return
	}
	key := string(shard.AppendStoredKey(nil, it.req.Key, 0))
	b.cmds = append(b.cmds, command{redis.NewStringCmd(ctx, "evalsha", lua.Inspect.SHA, 1, key, clock), nil, i})
}

// rebuild replaces the commands by those that the node had no script for, preceded
// by the scripts: all of them, so that a node has all or none and what one pipeline
// asks is refused, and asked again, together and in order.
func (b *batch) rebuild(ctx context.Context, clock string) {
	refused := b.cmds
	b.cmds = nil
	for _, script := range lua.All {
		b.cmds = append(b.cmds, command{redis.NewStringCmd(ctx, "script", "load", script.Source), nil, loading})
	}
	for _, cmd := range refused {
		cmd := cmd.(command)
		switch {
		case !noScript(cmd.Err()):
		case cmd.call != nil:
			b.send(ctx, clock, cmd.call)
		default:
			b.single(ctx, clock, cmd.item)
		}
	}
}

// collect sets the results of all commands, but for those that the node had no
// script for: unless that is final, it returns whether there were any.
func (b *batch) collect(n *node, final bool) (missing bool) {
	trouble := error(nil)
	for _, cmd := range b.cmds {
		cmd := cmd.(command)
		reply, err := cmd.Result()
		if reply != "" {
			err = nil // it came before what went wrong with the rest of the pipeline
		}
		switch {
		case !final && noScript(err):
			missing = true
			continue
		case b.redirect(n, cmd, err) || b.demoted(n, cmd, err):
			continue
		case cmd.item == loading:
		case err == nil && cmd.call != nil:
			err = cmd.call.decode(reply, n, b)
		case err == nil && b.items[cmd.item].run != nil:
			b.items[cmd.item].run.node, b.items[cmd.item].run.reply = n, reply
		case err == nil:
			err = b.inspected(n, cmd.item, reply)
		}
		if trouble == nil && failed(err) {
			trouble = err
			n.health.note(err)
		}
		if err != nil {
			unsure := mayHaveRun(err)
			b.each(cmd, func(j int) {
				b.items[j].unsure = unsure
				n.refuse(&b.items[j], why(err))
			})
		}
	}
	if trouble == nil {
		n.health.note(nil)
	}
	return missing
}

// each calls do with the indices of the items that cmd answers, in order.
func (b *batch) each(cmd command, do func(j int)) {
	switch {
	case cmd.item == loading:
		return
	case cmd.call == nil:
		do(cmd.item)
		return
	}
	for i := range cmd.call.entries {
		e := &cmd.call.entries[i]
		for j, left := e.first, e.n; left > 0; j, left = b.next[j], left-1 {
			do(j)
		}
	}
}

// refuse answers for the whole batch by policy.
func (b *batch) refuse(n *node, why string) {
	for i := range b.items {
		n.refuse(&b.items[i], why)
	}
}

// inspected sets what lua/inspect.lua says of item i, or has its parts read, too.
func (b *batch) inspected(n *node, i int, reply string) error {
	states, split, err := n.states(reply)
	if err != nil {
		return err
	}
	it := &b.items[i]
	it.res.States, it.node = states, n
	if split {
		n.engine.splits.whole([]item{*it})
		*it = item{}
	}
	return nil
}

// states decodes the reply of lua/inspect.lua.
func (n *node) states(reply string) (out []State, split bool, err error) {
	r := reader{reply, true}
	split = r.uint(1) == 1
	for r.ok && r.s != "" {
		s := State{Op: Op(r.uint(1)), Window: r.uint(5), Buckets: r.uint(2), Used: r.uint(6), Limit: r.uint(5), Rate: r.uint(3), TTL: r.uint(6), Node: n.name} // #nosec G115 -- one byte
		s.Remaining = max(s.Limit-s.Used, 0)
		out = append(out, s)
	}
	if !r.ok {
		return nil, false, fmt.Errorf("inspect: %w", errReply)
	}
	sortStates(out)
	return out, split, nil
}
