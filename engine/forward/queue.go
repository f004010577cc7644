package forward

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
)

// MaxConnections is the most connections of a forwarder to a node, in both protocols.
const MaxConnections = 2 * (backend.MaxConnections + backlog.InFlight)

// parts are what the queues of a forwarder share.
type parts struct {
	config Config
	live   atomic.Pointer[Settings] // in effect, never modified
	fleet  *backend.Fleet
	began  time.Time
	table  tableCache
	queues backend.Queues[queues]
}

// elapsed returns the time since the forwarder was opened.
func (s *parts) elapsed() time.Duration { return time.Since(s.began) }

// queue is a forward queue: it sends commands to a node, over connections of one protocol. It opens them with the first
// command.
type queue struct {
	*parts
	node     *backend.Node
	traffic  *traffic // of the node
	protocol int      // resp2 or resp3
	waiting  backlog.Queue[item]
	conns    backend.Connections // of client
	asking   backend.Connections // of queries

	mu      sync.Mutex
	client  *redis.Client // sends batches; nil before the first command; written with mu held
	queries *redis.Client // sends what the forwarder itself wants to know; nil, and written, as client is
	closed  bool          // guarded by mu
}

func newQueue(s *parts, n *backend.Node, t *traffic, protocol int) *queue {
	q := &queue{parts: s, node: n, traffic: t, protocol: protocol}
	doing := "forwarding commands to " + n.Name()
	q.waiting.Open(backlog.Bounds{Waiting: s.config.MaxWaiting, Aside: maxAside},
		func() backlog.Carrier[item] { return &batch{queue: q, doing: doing} })
	return q
}

// submit queues commands of one pipeline. It refuses them at once if the node is down or has left the pipeline waiting
// before, or if the queue is full. It copies the items, and may reorder the slice.
func (q *queue) submit(items []item) {
	if why := items[0].from.unable(q.node); why != "" {
		items = q.keepAlways(items, why)
	}
	err := q.open()
	if err == nil {
		err = q.waiting.Add(items, 0)
	}
	if err != nil {
		refuse(items, unavailable(q.node, err.Error()))
		return
	}
	q.waiting.Wake()
}

// keepAlways returns the commands that are also sent to a node that is down, and refuses the others.
func (q *queue) keepAlways(items []item, why string) []item {
	sent := func(it item) bool { return it.always && q.node.Client() != nil }
	refuse(slices.DeleteFunc(slices.Clone(items), sent), unavailable(q.node, why))
	return slices.DeleteFunc(items, func(it item) bool { return !sent(it) })
}

// open makes the clients, unless they are there already. It returns an error if the queue is closed.
func (q *queue) open() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return backlog.ErrClosed
	}
	if q.client == nil && q.node.Client() != nil {
		q.conns.PassOn = true
		o := q.node.Options(&q.conns)
		o.PipelinePoolSize = backlog.InFlight
		o.OnConnect = q.connect
		q.client = redis.NewClient(o)
		q.queries = redis.NewClient(q.node.Options(&q.asking))
	}
	return nil
}

// connect prepares a new connection. The options name RESP2, because with RESP3 go-redis looks for push messages before
// each reply, and discards attributes as it does.
func (q *queue) connect(ctx context.Context, conn *redis.Conn) error {
	if q.protocol == resp3 { // a node that refuses it replies in RESP2
		if err := conn.Process(ctx, redis.NewRawWriteToCmd(ctx, io.Discard, "hello", 3)); err != nil {
			return err
		}
	}
	q.table.suspect()
	return nil
}

// close answers the queued commands and ends the workers. It may be called twice.
func (q *queue) close() error {
	q.mu.Lock()
	again := q.closed
	q.closed = true
	client, queries := q.client, q.queries
	q.mu.Unlock()
	q.waiting.Close()
	if again || client == nil {
		return nil
	}
	return errors.Join(client.Close(), queries.Close())
}

// Serve implements backlog.Carrier.
func (b *batch) Serve(items []item, _ time.Duration) {
	b.items, b.next = items, 0
	if q := b.queue; !backend.Guard(q.config.Logger, b.doing, b.serve) {
		q.conns.DropAll() // replies to this batch may still arrive on them
		rest := b.items[b.next:]
		*b = batch{queue: q, doing: b.doing}
		refuse(rest, unavailable(q.node, "internal error"))
	}
}

// serve sends the batch and sets the result of every command.
func (b *batch) serve() {
	q := b.queue
	oldest := b.dropLate()
	if len(b.items) == 0 {
		return
	}
	timeout := q.live.Load().Timeout
	ctx, cancel := context.WithDeadline(context.Background(), q.began.Add(oldest+timeout))
	defer cancel()
	b.until = q.began.Add(oldest + backlog.Patience(timeout))
	b.build(ctx)
	q.node.Batches.Add(1)
	pipe := q.client.Pipeline()
	_ = pipe.BatchProcess(ctx, b.list...)
	sent := time.Now()
	_, _ = pipe.Exec(ctx) // collect reads the error of each command
	q.traffic.roundTrips.Add(time.Since(sent), 1)
	q.traffic.commands.Add(int64(len(b.items)))
	b.collect(len(b.items))
	b.release()
}

// dropLate refuses commands that have little of their time left and, if the node is down, all but those that are always
// sent. It returns when the oldest of the others was submitted.
func (b *batch) dropLate() (oldest time.Duration) {
	q := b.queue
	if q.node.Down() {
		b.items = q.keepAlways(b.items, q.node.Reason())
	}
	var late []item
	b.items, late, oldest = backlog.Late(b.items, q.elapsed(), q.live.Load().Timeout)
	refuse(late, unavailable(q.node, backend.NoAnswer))
	return oldest
}

// record updates the node's health after a failure. After a timeout the node is only probed, since some commands take
// long on a healthy node.
func (q *queue) record(err error) {
	if !backend.TimedOut(err) || backend.NeverConnected(err) {
		q.node.Record(err)
	} else {
		q.node.Check()
	}
}
