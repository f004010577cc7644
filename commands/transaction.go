package commands

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/forward"
)

// transaction holds the commands that MULTI queues. They run in order, as one pipeline. Other sessions' commands may
// run in between. The keys of forwarded commands must be on one node; those of rate limit commands may be on several.
type transaction struct {
	open    bool // MULTI was sent
	spoiled bool // a command was refused, so EXEC discards the transaction
	queue   []queued
	size    int // bytes of queue, as counted by Config.MaxQueueBytes

	forwarded forward.Transaction // where the forwarded commands of queue go
}

// queued is a command with its own copy of the arguments.
type queued struct {
	row  *row
	args [][]byte
}

func transactionRows() []row {
	fast := []string{"noscript", "loading", "stale", "fast", "allow_busy"}
	return []row{{Command: table.Command{
		Name: "multi", Arity: 1, Flags: fast, Group: "transactions", Since: "1.2.0", Complexity: "O(1)",
		Summary: "Starts a transaction: later commands are queued until EXEC",
		Replies: "OK. The reply to queued commands is QUEUED.",
	},
		run: runMulti, barrier: true, direct: true,
	}, {Command: table.Command{
		Name: "exec", Arity: 1, Flags: []string{"noscript", "loading", "stale", "skip_slowlog"}, Group: "transactions",
		Since:      "1.2.0",
		Complexity: "Depends on commands in the transaction",
		Summary:    "Runs the queued commands in order, but not atomically",
		Replies:    "Array of the commands' replies.",
	},
		run: runExec, barrier: true, direct: true,
	}, {Command: table.Command{
		Name: "discard", Arity: 1, Flags: fast, Group: "transactions", Since: "2.0.0",
		Complexity: "O(N), when N is the number of queued commands",
		Summary:    "Discards the queued commands",
		Replies:    "OK.",
	},
		run: runDiscard, barrier: true, direct: true,
	}, {Command: table.Command{
		Name: "watch", Arity: -2, Flags: fast, Keys: table.Keys{First: 1, Last: -1, Step: 1}, Group: "transactions",
		Since: "2.2.0", Complexity: "O(1)",
		Summary: "An error with passthrough, since the connections to nodes are shared. Otherwise accepted without " +
			"effect: there is nothing " +
			"to watch, and EXEC always runs",
		Args:    []table.Arg{{Name: "key", Type: "key", Multiple: true}},
		Replies: "OK, or the error.",
	},
		run: runWatch, barrier: true, direct: true,
	}, {Command: table.Command{
		Name: "unwatch", Arity: 1, Flags: fast, Group: "transactions", Since: "2.2.0", Complexity: "O(1)",
		Summary: "Accepted without effect: nothing is watched",
		Replies: "OK.",
	},
		run: func(c *client, _ [][]byte) { c.OK() },
	}}
}

func (c *client) enqueue(r *row, args [][]byte) {
	const (
		header   = 24 // bytes of a slice's header
		overhead = 96 // bytes of a command in the queue, in addition to its words
	)
	words := 0
	for _, a := range args {
		words += len(a)
	}
	size := overhead + header*len(args) + words
	if len(c.tx.queue) >= c.h.cfg.MaxQueue || c.tx.size+size > c.h.cfg.MaxQueueBytes || !c.tx.spoiled &&
		!c.s.Reserve(size) {
		c.s.Reserve(-c.tx.size)
		c.tx.queue, c.tx.size = nil, 0 // EXEC will discard the transaction
		c.reject(r, reply.ErrQueueFull)
		return
	}
	if !c.tx.spoiled {
		c.tx.queue = append(c.tx.queue, queued{r, clone(args, words)})
		c.tx.size += size
	}
	c.push(pendingCommand{row: &queuedRow})
}

// queuedRow replies for a command that was queued.
var queuedRow = row{Command: table.Command{Name: "queued"}, run: func(c *client, _ [][]byte) { c.Status("QUEUED") }}

func (c *client) endTransaction() {
	c.s.Reserve(-c.tx.size)
	c.tx = transaction{}
}

// clone copies a command of n bytes to one block of memory.
func clone(args [][]byte, n int) [][]byte {
	block := make([]byte, 0, n)
	own := make([][]byte, len(args))
	for i, a := range args {
		at := len(block)
		block = append(block, a...)
		own[i] = block[at:len(block):len(block)]
	}
	return own
}

func runMulti(c *client, _ [][]byte) {
	if c.tx.open {
		c.Error(reply.ErrNested)
		return
	}
	c.tx.open = true
	c.OK()
}

func runExec(c *client, _ [][]byte) {
	tx := c.tx
	c.tx = transaction{}
	defer c.s.Reserve(-tx.size)
	switch {
	case !tx.open:
		c.Error(reply.ErrNoMulti)
		return
	case tx.spoiled:
		c.Error(reply.ErrExecAbort)
		return
	}
	c.beginForward() // for the forwarded commands of earlier pipelines
	c.Array(len(tx.queue))
	c.executing = true
	for _, q := range tx.queue {
		c.dispatch(q.row, q.args)
	}
	c.executing = false
	c.flush()
}

func runDiscard(c *client, _ [][]byte) {
	if !c.tx.open {
		c.Error(reply.ErrNoDiscard)
		return
	}
	c.endTransaction()
	c.OK()
}

func runWatch(c *client, _ [][]byte) {
	switch {
	case c.tx.open:
		c.Error(reply.ErrWatch)
	case c.h.forwards():
		c.Error(reply.ErrNoWatch)
	default:
		c.OK()
	}
}
