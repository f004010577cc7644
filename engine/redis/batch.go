package redis

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// command is a command that go-redis never sends twice.
type command struct {
	*redis.StringCmd
	service bool     // it answers no item: it loads the library, or is an ASKING
	entries *entries // the decisions it asks for; nil for a call of its own
	item    int      // index of the first item that it answers, if it has no entries and is no service
	items   int      // number of consecutive items that it answers; 0 with entries or service
}

// NoRetry tells go-redis never to send the command again.
func (*command) NoRetry() bool { return true }

// A batch is what goes to a node in one round trip. Workers reuse theirs.
type batch struct {
	q     *queue // of the node
	items []pending
	cost  time.Duration // of the items
	next  []int         // next[i]: the item after i in its entry
	calls []*entries
	used  int // of calls
	cmds  []*command

	misrouted []pending // items whose key the node should have, but does not: to be submitted again

	redirected map[*queue][]pending // items to be submitted to other nodes

	late []pending // items that have waited for too long and are not answered yet

	missing bool  // the node does not have the library
	loadErr error // why the node refused to load it

	sent   time.Duration // when it was first sent, by the engine's own clock
	ended  time.Duration // when the last round trip ended, by the engine's own clock
	resets uint64        // denials.Cache.Resets before it was sent
}

// entries is one call of rl_decide, and the items behind each of its entries, linked
// from first to last by batch.next.
type entries struct {
	wire.Call
	first, last []int
	misrouted   bool // all items were misrouted; they are about one key
	asking      bool // all items were redirected with ASK; they are about one key
}

// add puts item i into the call. It returns false if the call is full.
func (c *entries) add(it *pending, i int, next []int) bool {
	at, ok := c.Add(it.req, it.shard)
	switch {
	case !ok:
		return false
	case at == len(c.first):
		c.first, c.last = append(c.first, i), append(c.last, i)
	default:
		next[c.last[at]] = i
		c.last[at] = i
	}
	return true
}

// takes reports whether the item may be in the call. While a slot migrates, some of its
// keys are on one node and some on the other, and a node redirects a call about one key
// only.
func (c *entries) takes(it *pending) bool {
	return c.misrouted == it.misrouted && c.asking == it.Asking &&
		(!it.misrouted && !it.Asking || c.About(it.req.Key, it.shard))
}

// Serve implements backlog.Carrier. It serves a batch and notifies the pipelines that wait. After a panic, FAIL policies
// answer the batch, and the process goes on.
func (b *batch) Serve(items []pending, cost time.Duration) {
	q := b.q
	b.items, b.cost = items, cost
	if !backend.Guard(q.engine.config.Logger, q.doing, b.serve) {
		left := slices.Concat(slices.Collect(maps.Values(b.redirected))...)
		*b = batch{q: q, items: slices.Concat(b.items, b.misrouted, left, b.late)}
		q.failAfterPanic(b.items)
	}
	notify(b.items)
	b.items = nil
}

// loadTries is how often a batch is sent to a node that does not have the library: as it is,
// after loading functions, after loading a script, and once more if the node has just lost it.
const loadTries = 4

// serve gives every item of the batch its result. It returns by the deadline of the
// oldest item, give or take the time to write and read.
func (b *batch) serve() {
	q := b.q
	e := q.engine
	if q.Down() {
		b.fail(q.Reason())
		return
	}
	b.sent, b.resets = e.elapsed(), e.denials.Resets()
	timeout := e.fleet.Timeout()
	var oldest time.Duration
	b.items, b.late, oldest = backlog.Late(b.items, b.sent, timeout)
	for ; len(b.late) > 0; b.late = b.late[1:] {
		q.traffic.overflows.Add(1)
		q.fail(&b.late[0], "not sent: too little of backend-timeout was left")
		notify(b.late[:1])
	}
	if len(b.items) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), e.opened.Add(oldest+timeout))
	defer cancel()
	clock := ""
	if e.clock != nil {
		clock = strconv.FormatInt(e.clock(), 10)
	}
	b.build(ctx, clock)
	b.count()
	// A node without the library has not run what it refused for that. It may lose
	// the library again and again.
	for try := 1; ; try++ {
		q.Batches.Add(1)
		began := e.elapsed()
		if len(b.cmds) == 1 {
			_ = q.client.Process(ctx, b.cmds[0]) // errors are the commands' own
		} else {
			pipe := q.client.Pipeline()
			for _, cmd := range b.cmds {
				_ = pipe.Process(ctx, cmd)
			}
			_, _ = pipe.Exec(ctx)
		}
		b.ended = e.elapsed()
		q.traffic.roundTrips.Add(b.ended-began, 1)
		if !e.steady {
			q.waiting.Observe(b.cost, began, b.ended)
		}
		if !b.collect(try == loadTries) {
			break
		}
		b.rebuild(ctx, clock)
	}
	if len(b.misrouted)+len(b.redirected) > 0 {
		b.resubmit()
	}
}

// build turns the items into commands. Decisions share calls, and so do resets; anything
// else ends the call before it, so that order holds.
func (b *batch) build(ctx context.Context, clock string) {
	b.next = append(b.next[:0], make([]int, len(b.items))...)
	b.cmds, b.used = b.cmds[:0], 0
	var open *entries
	for i := 0; i < len(b.items); i++ {
		it := &b.items[i]
		if it.single {
			b.addEntries(ctx, clock, open)
			open = nil
			n := b.sharing(i)
			b.addSingle(ctx, clock, i, n)
			i += n - 1
			continue
		}
		if open != nil && open.takes(it) && open.add(it, i, b.next) {
			continue
		}
		b.addEntries(ctx, clock, open)
		if b.used == len(b.calls) {
			b.calls = append(b.calls, new(entries))
		}
		open = b.calls[b.used]
		b.used++
		open.Reset()
		open.first, open.last = open.first[:0], open.last[:0]
		open.misrouted, open.asking = it.misrouted, it.Asking
		open.add(it, i, b.next)
	}
	b.addEntries(ctx, clock, open)
}

// addService appends a command that answers no item.
func (b *batch) addService(ctx context.Context, args ...any) {
	b.cmds = append(b.cmds, &command{StringCmd: redis.NewStringCmd(ctx, args...), service: true})
}

// addEntries appends a call of entries, if there is one.
func (b *batch) addEntries(ctx context.Context, clock string, c *entries) {
	if c == nil {
		return
	}
	if c.asking {
		b.addService(ctx, "asking")
	}
	args := c.Args(clock, b.q.clustered, b.q.scripted.Load())
	b.cmds = append(b.cmds, &command{StringCmd: redis.NewStringCmd(ctx, args...), entries: c})
}

// rebuild replaces the commands with one that loads the library, followed by those whose
// function the node did not know. Later ones of the same pipeline may have run before them, if
// another proxy has just loaded the library: that cannot be told before the replies have come.
func (b *batch) rebuild(ctx context.Context, clock string) {
	refused := b.cmds
	b.cmds = nil
	if b.q.scripted.Load() {
		b.addService(ctx, "script", "load", lua.Script.Source)
	} else {
		b.addService(ctx, "function", "load", lua.Library.Source)
	}
	for _, cmd := range refused {
		switch {
		case cmd.service || !wire.UnknownFunction(cmd.Err()):
		case cmd.entries != nil:
			b.addEntries(ctx, clock, cmd.entries)
		default:
			b.addSingle(ctx, clock, cmd.item, cmd.items)
		}
	}
}

// count counts the batch, which is about to be sent.
func (b *batch) count() {
	t := &b.q.traffic
	entries := 0
	for _, c := range b.calls[:b.used] {
		entries += len(c.first)
	}
	inEntries := 0
	for i := 0; i < len(b.items); {
		at, n := b.items[i].At, int64(0)
		for ; i < len(b.items) && b.items[i].At == at; i++ { // most often a whole pipeline
			switch it := &b.items[i]; {
			case it.call != nil: // its request was submitted before package split made the call
				continue
			case !it.single:
				inEntries++
			}
			n++
		}
		if n > 0 {
			t.waits.Add(b.sent-at, n)
		}
	}
	t.combined.Add(int64(inEntries - entries))
	t.sizes[min(bits.Len(uint(len(b.items)-1)), len(t.sizes)-1)].Add(1)
	t.requests.Add(int64(len(b.items)))
}

// first returns the index of the first item that the command answers.
func (c *command) first() int {
	if c.entries != nil {
		return c.entries.first[0]
	}
	return c.item
}

// each calls do with the indices of the items that cmd answers, in order.
func (b *batch) each(cmd *command, do func(j int)) {
	if cmd.entries == nil {
		for j := cmd.item; j < cmd.item+cmd.items; j++ {
			do(j)
		}
		return
	}
	for at := range cmd.entries.first {
		b.eachOf(cmd.entries, at, do)
	}
}

// eachOf calls do with the indices of the items of one entry, in order.
func (b *batch) eachOf(c *entries, at int, do func(j int)) {
	for j := c.first[at]; ; j = b.next[j] {
		next := j == c.last[at]
		do(j)
		if next {
			return
		}
	}
}
