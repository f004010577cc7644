package commands

// transaction is what MULTI queues. Commands keep their order and run as one
// pipeline; other sessions' commands may come between them, since keys may live on
// different nodes.
type transaction struct {
	open    bool
	spoiled bool // a command was refused: EXEC discards all
	queue   []queued
	size    int // bytes, as Config.MaxQueueBytes counts them
}

// queued is a command with arguments of its own.
type queued struct {
	row  *row
	args [][]byte
}

func transactionRows() []row {
	fast := []string{"noscript", "loading", "stale", "fast", "allow_busy"}
	return []row{{
		name: "multi", arity: 1, flags: fast, group: "transactions", since: "1.2.0", cost: "O(1)",
		summary: "Starts a transaction: later commands are queued until EXEC",
		replies: "OK. Queued commands answer QUEUED.",
		example: []example{{"MULTI", "OK"}},
		run:     runMulti, barrier: true, direct: true,
	}, {
		name: "exec", arity: 1, flags: []string{"noscript", "loading", "stale", "skip_slowlog"}, group: "transactions", since: "1.2.0",
		cost:    "Depends on commands in the transaction",
		summary: "Runs the queued commands in order; ordered, but not atomic across keys",
		replies: "Array of the commands' replies.",
		example: []example{{"EXEC", "1) PONG\n2) \"hello\""}},
		run:     runExec, barrier: true, direct: true,
	}, {
		name: "discard", arity: 1, flags: fast, group: "transactions", since: "2.0.0", cost: "O(N), when N is the number of queued commands",
		summary: "Forgets the queued commands",
		replies: "OK.",
		example: []example{{"DISCARD", "OK"}},
		run:     runDiscard, barrier: true, direct: true,
	}, {
		name: "watch", arity: -2, flags: fast, keys: keys{1, -1, 1}, group: "transactions", since: "2.2.0", cost: "O(1)",
		summary: "Accepted: nothing is watched, and EXEC always runs",
		args:    []arg{{name: "key", typ: "key", multiple: true}},
		replies: "OK.",
		example: []example{{"WATCH user:42", "OK"}},
		run:     runWatch, barrier: true, direct: true,
	}, {
		name: "unwatch", arity: 1, flags: fast, group: "transactions", since: "2.2.0", cost: "O(1)",
		summary: "Accepted: nothing is watched",
		replies: "OK.",
		example: []example{{"UNWATCH", "OK"}},
		run:     func(c *client, _ [][]byte) { c.ok() },
	}}
}

// enqueue keeps a command for EXEC.
func (c *client) enqueue(r *row, args [][]byte) {
	const header = 24 // bytes of a slice's header
	size := header * len(args)
	for _, a := range args {
		size += len(a)
	}
	if len(c.tx.queue) >= c.h.cfg.MaxQueue || c.tx.size+size > c.h.cfg.MaxQueueBytes {
		c.tx.queue, c.tx.size = nil, 0 // EXEC will not run them
		c.reject(r, errQueueFull)
		return
	}
	if !c.tx.spoiled {
		c.tx.queue = append(c.tx.queue, queued{r, clone(args, size-header*len(args))})
		c.tx.size += size
	}
	c.push(entry{row: &queuedRow})
}

// queuedRow answers for a command that was queued.
var queuedRow = row{name: "queued", run: func(c *client, _ [][]byte) { c.status("QUEUED") }}

// clone copies a command of n bytes into one block.
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
		c.fail(errNested)
		return
	}
	c.tx.open = true
	c.ok()
}

func runExec(c *client, _ [][]byte) {
	tx := c.tx
	c.tx = transaction{}
	switch {
	case !tx.open:
		c.fail(errNoMulti)
		return
	case tx.spoiled:
		c.fail(errExecAbort)
		return
	}
	c.array(len(tx.queue))
	for _, q := range tx.queue {
		c.dispatch(q.row, q.args)
	}
	c.flush()
}

func runDiscard(c *client, _ [][]byte) {
	if !c.tx.open {
		c.fail(errNoDiscard)
		return
	}
	c.tx = transaction{}
	c.ok()
}

func runWatch(c *client, _ [][]byte) {
	if c.tx.open {
		c.fail(errWatch)
		return
	}
	c.ok()
}
