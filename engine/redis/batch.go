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
	"github.com/rlproxy/rlproxy/engine/library"
	"github.com/rlproxy/rlproxy/engine/replicas"
	"github.com/rlproxy/rlproxy/engine/wire"
)

// A batch is what goes to a node in one round trip. Workers reuse theirs.
type batch struct {
	*parts
	q     *queue // of the node
	items []item
	work  time.Duration // of the items
	next  []int         // next[i]: the item after i in its entry
	calls []*entries
	used  int // of calls
	cmds  []command
	clock string // replaces the node's in tests

	misrouted  []item            // items whose key the node should have, but does not: to be submitted again
	redirected map[*queue][]item // items to be submitted to other nodes
	recalled   []item            // items that wait for advances to come back: to be submitted again
	late       []item            // items that have waited for too long and are not answered yet

	missing bool  // the node does not have the library
	loadErr error // why the node refused to load it

	notReplicated error // why what it has written does not count, or nil

	sent   time.Duration // when it was first sent, by the engine's own clock
	ended  time.Duration // when the last round trip ended, by the engine's own clock
	resets uint64        // denials.Cache.Resets before it was sent
}

// entries is one call of rl_decide, and the items behind each of its entries, linked from first to last by batch.next.
type entries struct {
	wire.Call
	first, last []int
	misrouted   bool // all items were misrouted; they are about one key
	asking      bool // all items were redirected with ASK; they are about one key
}

// add puts item i into the call. It returns false if the call is full.
func (c *entries) add(it *item, i int, next []int) bool {
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

// takes reports whether the item may be in the call. While a slot migrates, some of its keys are on one node and some
// on the other, and a node redirects a call about one key only.
func (c *entries) takes(it *item) bool {
	return c.misrouted == it.misrouted && c.asking == it.Asking &&
		(!it.misrouted && !it.Asking || c.About(it.req.Key, it.shard))
}

// entriesCommand sends a call of entries.
type entriesCommand struct {
	sendOnce
	entries *entries
}

func (c *entriesCommand) each(b *batch, do func(j int)) {
	for at := range c.entries.first {
		b.eachOf(c.entries, at, do)
	}
}

func (c *entriesCommand) first(b *batch) *item { return &b.items[c.entries.first[0]] }

func (c *entriesCommand) again(ctx context.Context, b *batch) { b.addEntries(ctx, c.entries) }

func (c *entriesCommand) notRun(b *batch, err error, final bool) error {
	return b.notRun(c, err, final)
}

// refused implements command. A node that is no longer a master refuses the call, but redirects one about one key.
func (c *entriesCommand) refused(b *batch, err error) bool {
	again := b.q.clustered && backend.Demoted(err) && !c.entries.misrouted
	if again {
		c.each(b, b.misroute)
	}
	return again
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

// Serve implements backlog.Carrier. It serves a batch and notifies the pipelines that wait. After a panic, FAIL
// FAIL policies answer the batch, and the process goes on.
func (b *batch) Serve(items []item, work time.Duration) {
	b.items, b.work = items, work
	if q := b.q; !backend.Guard(b.logger, q.doing, b.serve) {
		left := slices.Concat(slices.Collect(maps.Values(b.redirected))...)
		*b = batch{parts: b.parts, q: q, items: slices.Concat(b.items, b.misrouted, left, b.recalled, b.late)}
		q.failAfterPanic(b.items)
	}
	notify(b.items)
	b.items = nil
}

// serve gives every item of the batch its result. It returns by the deadline of the oldest item, give or take the time
// to write and read.
func (b *batch) serve() {
	q := b.q
	if q.Down() {
		for i := range b.items {
			q.fail(&b.items[i], q.Reason())
		}
		return
	}
	b.sent, b.resets = b.elapsed(), b.denials.Resets()
	var oldest time.Duration
	timeout := b.fleet.Timeout()
	b.items, b.late, oldest = backlog.Late(b.items, b.sent, timeout)
	for ; len(b.late) > 0; b.late = b.late[1:] {
		q.traffic.Overflows.Add(1)
		q.fail(&b.late[0], "not sent: too little of backend-timeout was left")
		notify(b.late[:1])
	}
	if len(b.items) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), b.began.Add(oldest+timeout))
	defer cancel()
	if b.nodeClock != nil {
		b.clock = strconv.FormatInt(b.nodeClock(), 10)
	}
	b.build(ctx)
	b.count()
	// A node without the library has not run what it refused for that. It may lose the library again and again.
	for try := 1; ; try++ {
		q.Batches.Add(1)
		began := b.elapsed()
		b.notReplicated = replicas.Send(ctx, q.Node, b.live.Load().Replicas, b.cmds)
		b.ended = b.elapsed()
		q.traffic.RoundTrips.Add(b.ended-began, 1)
		if !b.steady && b.notReplicated == nil {
			q.waiting.Observe(b.work, began, b.ended)
		}
		if !b.collect(try == library.Tries) {
			break
		}
		b.rebuild(ctx)
	}
	if len(b.misrouted)+len(b.redirected)+len(b.recalled) > 0 {
		b.resubmit()
	}
}

// build turns the items into commands. Decisions share calls, and so do resets; anything else ends the call before it,
// so that order holds.
func (b *batch) build(ctx context.Context) {
	b.next = append(b.next[:0], make([]int, len(b.items))...)
	b.cmds, b.used = b.cmds[:0], 0
	var open *entries
	for i := 0; i < len(b.items); i++ {
		it := &b.items[i]
		if it.task != (entry{}) {
			b.addEntries(ctx, open)
			open = nil
			n := b.sharing(i)
			b.addOwn(ctx, i, n)
			i += n - 1
			continue
		}
		if open != nil && open.takes(it) && open.add(it, i, b.next) {
			continue
		}
		b.addEntries(ctx, open)
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
	b.addEntries(ctx, open)
}

// addEntries appends a call of entries, if there is one.
func (b *batch) addEntries(ctx context.Context, c *entries) {
	if c == nil {
		return
	}
	if c.asking {
		b.addService(ctx, "asking")
	}
	args := c.Args(b.clock, b.q.clustered, b.q.loader.Scripted.Load())
	b.cmds = append(b.cmds, &entriesCommand{sendOnce{redis.NewStringCmd(ctx, args...)}, c})
}

// addService appends a command that answers no item.
func (b *batch) addService(ctx context.Context, args ...any) {
	b.cmds = append(b.cmds, &service{sendOnce{redis.NewStringCmd(ctx, args...)}})
}

// rebuild replaces the commands with one that loads the library, followed by those whose function the node did not
// know. Later ones of the same pipeline may have run before them, if another proxy has just loaded the library: that
// cannot be told before the replies have come.
func (b *batch) rebuild(ctx context.Context) {
	refused := b.cmds
	b.cmds = nil
	b.addService(ctx, b.q.loader.Load()...)
	for _, cmd := range refused {
		if library.Missing(cmd.Err()) {
			cmd.again(ctx, b)
		}
	}
}

// count counts the batch, which is about to be sent.
func (b *batch) count() {
	t := &b.q.traffic
	entries, inEntries := 0, 0
	for _, c := range b.calls[:b.used] {
		entries += len(c.first)
	}
	for i := 0; i < len(b.items); {
		at, n := b.items[i].At, int64(0)
		for ; i < len(b.items) && b.items[i].At == at; i++ { // most often a whole pipeline
			switch b.items[i].task.(type) {
			case *splitCall: // its request was submitted before package split made the call
				continue
			case entry:
				inEntries++
			}
			n++
		}
		if n > 0 {
			t.Waits.Add(b.sent-at, n)
		}
	}
	t.Combined.Add(int64(inEntries - entries))
	t.Sizes[min(bits.Len(uint(len(b.items)-1)), len(t.Sizes)-1)].Add(1)
	t.Requests.Add(int64(len(b.items)))
}
