package engine

import (
	"bytes"
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// word is an argument as it stands in the client's buffer: go-redis takes a pointer
// to it without copying it and without allocating.
type word []byte

// MarshalBinary returns the argument's bytes.
func (w *word) MarshalBinary() ([]byte, error) { return *w, nil }

// laneBatch is what goes to a node in one round trip. A worker uses one again and
// again; only the memory of replies is new, a block for many.
type laneBatch struct {
	items   []item
	words   []any
	replies []rawReply
	cmds    []redis.RawWriteToCmd // which go-redis never sends twice
	list    []redis.Cmder
	block   replyBlock
}

// asking is what a node of a cluster wants to hear before a command that another
// one has sent there for the time being.
var asking any = "asking"

// build turns the items into commands, one each, in order. A command that has to be
// announced has one more before it.
func (b *laneBatch) build(ctx context.Context) {
	words, cmds := 0, len(b.items)
	for i := range b.items {
		words += len(b.items[i].req.Args)
		if b.items[i].asking {
			cmds++
		}
	}
	b.words = room(b.words, words)
	b.replies, b.cmds, b.list = room(b.replies, cmds), room(b.cmds, cmds), room(b.list, cmds)
	for i := range b.items {
		it := &b.items[i]
		if it.asking {
			b.add(ctx, it.wait, asking)
		}
		from := len(b.words)
		for j := range it.req.Args {
			b.words = append(b.words, (*word)(&it.req.Args[j]))
		}
		b.add(ctx, it.wait, b.words[from:]...)
	}
}

// add appends a command. There is room: commands and replies must not move.
func (b *laneBatch) add(ctx context.Context, wait *waiter, words ...any) {
	b.replies = append(b.replies, rawReply{from: &b.block, wait: wait})
	b.cmds = append(b.cmds, *redis.NewRawWriteToCmd(ctx, &b.replies[len(b.replies)-1], words...))
	b.list = append(b.list, &b.cmds[len(b.cmds)-1])
}

// room returns s, empty, with a capacity of at least n, and without keeping what only
// a large batch needs.
func room[T any](s []T, n int) []T {
	const keep = 4 * batchItems
	if cap(s) < n || cap(s) > keep && n <= keep {
		return make([]T, 0, n)
	}
	return s[:0]
}

// collect sets the results of all items, but for those that it hands to the node
// which has their slot by now.
func (b *laneBatch) collect(l *lane) {
	b.block.settle()
	n := l.node
	var trouble error
	strays := false
	at := 0
	for i := range b.items {
		it := &b.items[i]
		if it.asking {
			at++
		}
		reply, err := &b.replies[at], b.cmds[at].Err()
		at++
		switch {
		case err != nil:
			trouble = err
			it.res.Err = &Unavailable{n.name, why(err)}
		case reply.lost:
			it.res.Err = errReplies
		case reply.raw[0] == '-' && b.redirect(n, i, reply.raw):
		default:
			it.res.Raw = reply.raw[:len(reply.raw):len(reply.raw)]
			strays = strays || reply.raw[0] == '-' && hasStrayed(reply.raw)
		}
	}
	clear(b.words)
	clear(b.replies)
	clear(b.cmds)
	if trouble != nil {
		n.noteForward(trouble)
	}
	if strays {
		l.links.dropAll()
		n.engine.finder.wake()
	}
}

// hasStrayed tells whether an error says that the node is not what it was.
func hasStrayed(raw []byte) bool {
	for _, code := range strayed {
		if bytes.HasPrefix(raw[1:], []byte(code)) {
			return true
		}
	}
	return false
}

// redirect hands item i to the node that the error names, if it is MOVED or ASK: the
// command has not run. It returns whether it did.
func (b *laneBatch) redirect(n *node, i int, raw []byte) bool {
	if n.engine.finder == nil || b.items[i].hops >= maxHops {
		return false
	}
	f := strings.Fields(string(raw[1:]))
	if len(f) != 3 || f[0] != "MOVED" && f[0] != "ASK" {
		return false
	}
	n.engine.finder.wake()
	to := n.engine.finder.node(n.backend, fullAddress(f[2], n.name))
	if to == nil {
		return false
	}
	it := b.items[i]
	it.hops++
	it.asking = f[0] == "ASK"
	b.items[i] = item{} // from here on the other node's
	to.lanes.submit(to, []item{it})
	return true
}
