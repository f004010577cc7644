// Package slots ties leases of RL.ACQUIRE to the connections of clients (CONN): it renews them while
// their connection is open, and releases them when it closes.
//
// A Keeper records which connection holds which lease. One goroutine renews all of them, in one pipeline
// if they are due together. A session releases its leases when it ends; the goroutine retries releases that
// a node does not answer until the lease must have expired. So a client that is killed frees its slots at
// once, and if rlproxy itself is killed, the leases expire after their TTL.
//
// A lease is identified by its key and id, and tied to at most one connection: the newest RL.ACQUIRE decides
// which. So a client that has reconnected and acquired its lease again keeps it when rlproxy notices that
// its old connection is closed.
//
// Reading order: slots.go (this file), conn.go (what a session does), round.go (what the goroutine does).
package slots

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/due"
)

// MaxConn is the most leases that are tied to one connection.
const MaxConn = 16384

// overhead is the bytes of a lease besides those of its key: the lease, its entry of the map, and its
// place in the heap.
const overhead = 320

// retryAfter is the ms after which a request that a node did not answer is retried.
const retryAfter = 1000

// Config configures a Keeper. Only Engine is required.
type Config struct {
	Engine engine.Engine

	// Reserve reserves bytes for what clients make the process keep, or releases them if delta is
	// negative. It reports whether they were available. Nil: any number is.
	Reserve func(delta int64) bool

	// Lapsed is called with the number of lapsed leases that a renewal or a release has removed. Nil: nothing is.
	Lapsed func(n int64)

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default()
}

// Keeper keeps the leases that are tied to connections. It is safe for concurrent use.
type Keeper struct {
	cfg     Config
	started time.Time
	wake    chan struct{} // has an element if the goroutine must check again what is due
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed when the goroutine has ended
	pipe    engine.Pipeline

	tied atomic.Int64 // number of leases
	lost atomic.Int64 // leases that had ended when they were to be renewed

	mu     sync.Mutex
	leases map[leaseName]*lease // guarded by mu, as is all of a lease
	due    due.Heap[*lease]     // leases to be renewed or released; guarded by mu
}

// leaseName identifies a lease.
type leaseName struct {
	key string // the name by which engines identify it
	id  engine.Digest
}

// lease is a lease that is tied to a connection, is about to be, or was until the connection closed.
type lease struct {
	leaseName
	due.Place // in Keeper.due

	owner *Conn // nil: the connection is closed, and the lease is to be released

	at  int64 // when it is due to be renewed or released, in ms of Keeper.now
	ttl int64 // ms
	end int64 // ms of Keeper.now at which it expires unless it is renewed

	held   bool          // RL.ACQUIRE was answered, and held it
	kept   bool          // a release was not answered, so it may still be held
	claims int           // calls of RL.ACQUIRE under way
	freed  chan struct{} // closed when the release under way is answered; nil: none is
}

// Open starts a Keeper.
func Open(c Config) *Keeper {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Lapsed == nil {
		c.Lapsed = func(int64) {}
	}
	if c.Reserve == nil {
		c.Reserve = func(int64) bool { return true }
	}
	k := &Keeper{
		cfg: c, started: c.Now(), leases: make(map[leaseName]*lease),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go k.run() // until Close
	return k
}

// Close tries once more to release the leases of closed connections, and ends the goroutine. The
// connections are closed, and the engine is still open.
func (k *Keeper) Close() {
	close(k.stop)
	<-k.stopped
}

// Stats returns what INFO and metrics show.
func (k *Keeper) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "slot_leases_tied", Value: k.tied.Load(), Metric: "slot_leases_tied",
			Help: "Leases of RL.ACQUIRE that are tied to a client's connection (CONN)."},
		{Name: "slot_leases_lost", Value: k.lost.Load(), Metric: "slot_leases_lost_total",
			Help: "Leases with CONN that had ended when they were to be renewed."},
	}
}

// now returns the ms since the Keeper was opened. It never goes back.
func (k *Keeper) now() int64 { return k.cfg.Now().Sub(k.started).Milliseconds() }

// add adds a lease of c, whose memory is reserved. k.mu is held.
func (k *Keeper) add(n leaseName, c *Conn) *lease {
	l := &lease{leaseName: n}
	k.leases[n] = l
	k.tied.Add(1)
	c.own(l)
	return l
}

// remove removes a lease. k.mu is held.
func (k *Keeper) remove(l *lease) {
	delete(k.leases, l.leaseName)
	k.tied.Add(-1)
	k.due.Remove(l)
	l.disown()
	k.cfg.Reserve(-size(l.key))
}

// Before reports whether a lease is due before another one.
func (l *lease) Before(other *lease) bool { return l.at < other.at }

// plan schedules the renewal or release of a lease. k.mu is held.
func (k *Keeper) plan(l *lease, at int64) {
	l.at = at
	if k.due.Put(l) { // it is the next
		select {
		case k.wake <- struct{}{}:
		default: // the goroutine will look in any case
		}
	}
}

// lasts records that a lease has a TTL, in ms, from a time on, or may have. Which of several requests under way a node
// decides last is not known, so each of them may bring the next renewal forward, and none puts it off. k.mu is held.
func (k *Keeper) lasts(l *lease, since, ttl int64) {
	l.end = max(l.end, ends(since, ttl))
	if at := renewAt(since, ttl); l.owner != nil && (!l.InHeap() || at < l.at) {
		k.plan(l, at)
	}
}

// renewAt returns when to renew a lease that was acquired or renewed at now: after a quarter to a third of
// its TTL, rounded so that leases with the same TTL are due together.
func renewAt(now, ttl int64) int64 {
	grid := max(ttl/12, 1)
	return (now + ttl/3) / grid * grid
}

// ends returns when a lease that is acquired or renewed at now has expired at the latest. Engines round its TTL up.
func ends(now, ttl int64) int64 { return now + ttl + ttl/64 }

// size returns the bytes that a lease of a key takes.
func size(key string) int64 { return overhead + int64(len(key)) }
