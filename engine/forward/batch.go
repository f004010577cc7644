package forward

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/forward/replies"
	"github.com/rlproxy/rlproxy/internal/replyscan"
)

// word is an argument in the client's buffer. go-redis writes a *word without copying it and without allocating.
type word []byte

// MarshalBinary returns the bytes of the argument.
func (w *word) MarshalBinary() ([]byte, error) { return *w, nil }

// batch is the commands that go to a node in one round trip. A worker reuses its batch; only the memory of replies is
// new.
type batch struct {
	queue    *queue
	doing    string    // what it does, for the log line of a panic
	until    time.Time // when the worker stops waiting for clients, so that it still reads the other replies in time
	items    []item
	patience time.Duration         // how long it waits for a client that reads nothing
	next     int                   // the first item that has no result yet
	at       int                   // the reply to it, or to the ASKING before it
	words    []any                 // the arguments of all commands, concatenated
	replies  []rawReply            // the replies, by index in cmds
	cmds     []redis.RawWriteToCmd // a command type that go-redis never retries
	list     []redis.Cmder         // pointers to cmds
	block    replyBlock            // memory for small replies
}

// asking is the command that must precede a command redirected with ASK.
var asking = []any{"asking"}

// prelude returns the command that must precede the item on its connection, or nil. Its reply is ignored.
func (it *item) prelude() []any {
	switch {
	case it.Asking:
		return asking
	case it.result.Name == "function|load":
		return loadOwn
	}
	return nil
}

// build turns the items into commands, in order, each after its prelude.
func (b *batch) build(ctx context.Context) {
	words, cmds := 0, len(b.items)
	for i := range b.items {
		words += len(b.items[i].command.Args)
		if b.items[i].prelude() != nil {
			cmds++
		}
	}
	b.words = room(b.words, words)
	b.replies, b.cmds, b.list = room(b.replies, cmds), room(b.cmds, cmds), room(b.list, cmds)
	b.next, b.at, b.patience = 0, 0, patience
	for i := range b.items {
		it := &b.items[i]
		if words := it.prelude(); words != nil {
			b.add(ctx, i, words...)
		}
		from := len(b.words)
		for j := range it.command.Args {
			b.words = append(b.words, (*word)(&it.command.Args[j]))
		}
		b.add(ctx, i, b.words[from:]...)
	}
}

// add appends a command of an item. The caller has made room, since cmds and replies must not be reallocated: pointers
// to their elements are kept.
func (b *batch) add(ctx context.Context, item int, words ...any) {
	b.replies = append(b.replies, rawReply{from: b, item: item})
	b.cmds = append(b.cmds, *redis.NewRawWriteToCmd(ctx, &b.replies[len(b.replies)-1], words...))
	b.list = append(b.list, &b.cmds[len(b.cmds)-1])
}

// room returns s, empty, with a capacity of at least n. It does not keep the memory that only a large batch needed.
func room[T any](s []T, n int) []T {
	const keep = 4 * backlog.MaxItems
	if cap(s) < n || cap(s) > keep && n <= keep {
		return make([]T, 0, n)
	}
	return s[:0]
}

// collect sets the results of the items before item end, except of those that it redirects to other nodes, and of those
// that have one already. A caller of Await may use them at once.
func (b *batch) collect(end int) {
	q := b.queue
	if end == len(b.items) {
		b.block.closeLast()
	}
	var trouble error
	var moved redirects
	demoted := false
	for i := b.next; i < end; i++ {
		it := &b.items[i]
		if it.prelude() != nil {
			b.at++
		}
		reply, err := &b.replies[b.at], b.cmds[b.at].Err()
		b.at++
		switch {
		case err == nil && !reply.lost && len(reply.raw) == 0:
			err = backend.ErrMalformed
		case err != nil && replyscan.Whole(reply.raw):
			// It is the error of a later reply, which go-redis returns for all.
			err = nil
		}
		it.result.reserved = int64(reply.reserved)
		switch {
		case err != nil:
			trouble = err
			q.traffic.failed.Add(1)
			it.result.Err = unavailable(q.node, backend.Reason(err))
		case reply.lost:
			it.result.Err = errNoRoom
		case reply.raw[0] == '-' && moved.add(q, it, reply.raw):
		default:
			it.result.Raw = reply.raw[:len(reply.raw):len(reply.raw)]
			if it.result.traits&listsKeys != 0 {
				it.result.Raw = replies.Without(reservedPrefix, it.result.Raw)
			}
			demoted = demoted || it.demotes(reply.raw)
			if reply.raw[0] == '-' && backend.CutOff(backend.Reply(reply.raw[1:])) {
				q.node.Doubt()
			}
		}
		reply.raw = nil // its memory is the result's
	}
	if trouble != nil {
		q.record(trouble)
	}
	if demoted {
		q.conns.DropAll()
		q.fleet.CheckTopology()
	}
	moved.submit()
	answered(b.items[b.next:end])
	b.next = end
}

// release releases what the batch refers to, so that a worker without commands holds no memory of clients.
func (b *batch) release() {
	clear(b.words)
	clear(b.replies)
	clear(b.cmds)
}

// demotes reports whether raw, the reply to the item, is the error of a node that may no longer be the master. A script
// may reply with the same code for a reason of its own, but not with the server's text.
func (it *item) demotes(raw []byte) bool {
	return raw[0] == '-' && backend.Demoted(backend.Reply(raw[1:])) &&
		(!it.isScript() || bytes.Contains(raw, []byte("replica")))
}

// isScript reports whether the item runs a script or a function, whose errors may have any text.
func (it *item) isScript() bool {
	return strings.HasPrefix(it.result.Name, "eval") || strings.HasPrefix(it.result.Name, "fcall")
}

// redirects are the items of a batch that go on to other nodes. Those of one pipeline to one node are submitted
// together, so that they stay in order.
type redirects map[redirection][]*item

// redirection is a pipeline and the queue to which some of its items go.
type redirection struct {
	to   *queue
	from *Pipeline
}

// add adds an item if raw, the reply to it, redirects it from the node of q. A script could name any address, and so
// make rlproxy connect to it and log in. It is redirected only to nodes that are known. add reports whether the item is
// redirected.
func (r *redirects) add(q *queue, it *item, raw []byte) bool {
	if it.Lost() {
		return false
	}
	to, asking := q.fleet.Redirected(q.node, backend.Reply(raw[1:]), it.isScript())
	if to == nil {
		return false
	}
	if *r == nil {
		*r = make(redirects)
	}
	it.Redirect(asking)
	of := redirection{q.queues.Of(to)[q.protocol], it.from}
	(*r)[of] = append((*r)[of], it)
	return true
}

// submit submits the items to their queues, to which they belong then.
func (r redirects) submit() {
	for of, moved := range r {
		items := make([]item, len(moved))
		for i, it := range moved {
			items[i], *it = *it, item{}
		}
		of.to.submit(items)
	}
}
