package slots

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// clock is a clock that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// world is a Keeper on an engine that a test controls. The engine keeps leases by the clock.
type world struct {
	*Keeper
	t     *testing.T
	clock clock

	mu       sync.Mutex
	live     map[leaseName]int64 // when each lease ends, in ms
	slots    int                 // the most leases
	down     bool                // the engine does not answer
	panics   bool                // the engine panics
	panicked int                 // how often it did
	gate     chan struct{}       // if set, requests that release wait until it is closed
	settling int                 // requests that release, also those that wait
	late     chan struct{}       // if set, renewals wait until it is closed
	renewing int                 // renewals, also those that wait
	renewals []int               // the number of renewals of each pipeline that had any
	bytes    int64               // reserved
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, live: make(map[leaseName]int64), slots: 100, clock: clock{at: time.UnixMilli(1_000_000)}}
	w.Keeper = Open(Config{Engine: fake{w}, Now: w.clock.now, Reserve: func(delta int64) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.bytes+delta > 8*size("k") && delta > 0 {
			return false
		}
		w.bytes += delta
		return true
	}})
	t.Cleanup(func() {
		w.set(func() { w.down, w.panics = false, false })
		w.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, w.tied.Load()*size("k"), w.bytes, "what was reserved is what is kept")
	})
	return w
}

// set changes what the engine does.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// pass lets time pass.
func (w *world) pass(ms int64) {
	w.clock.mu.Lock()
	w.clock.at = w.clock.at.Add(time.Duration(ms) * time.Millisecond)
	w.clock.mu.Unlock()
	select {
	case w.wake <- struct{}{}: // look at the clock again
	default:
	}
}

// count returns a counter of the engine.
func (w *world) count(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *n
}

// lives reports whether the engine has a live lease.
func (w *world) lives(id string) bool {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[leaseName{"k", engine.DigestOf([]byte(id))}] > now
}

// eventually waits until something is so.
func (w *world) eventually(so func() bool, what string) {
	w.t.Helper()
	require.Eventually(w.t, so, 10*time.Second, time.Millisecond, what)
}

// acquire sends an RL.ACQUIRE with a TTL of 12 s for a connection, and reports whether it was allowed.
func (w *world) acquire(c *Conn, id string, tied bool) bool {
	w.t.Helper()
	allowed, msg := w.try(c, id, tied)
	require.Empty(w.t, msg)
	return allowed
}

func (w *world) try(c *Conn, id string, tied bool) (allowed bool, msg string) {
	p := request(engine.OpDecide, id)
	if msg := c.Claim(&p.Requests[0], tied); msg != "" {
		return false, msg
	}
	fake{w}.Do(p)
	c.Done(p.Requests, p.Results, tied)
	return p.Results[0].Allowed, ""
}

// renew sends an RL.RENEW for a connection.
func (w *world) renew(c *Conn, id string, ttl int64) {
	p := request(engine.OpRenew, id)
	p.Requests[0].Hold.TTL = ttl
	fake{w}.Do(p)
	c.Done(p.Requests, p.Results, false)
}

// release sends an RL.RELEASE for a connection.
func (w *world) release(c *Conn, id string) {
	p := request(engine.OpSettle, id)
	fake{w}.Do(p)
	c.Done(p.Requests, p.Results, false)
}

func request(op engine.Op, id string) *engine.Pipeline {
	var p engine.Pipeline
	r := p.Add()
	r.Op, r.Kind, r.Key, r.Cost = op, limit.Concurrency, []byte("k"), 1
	r.Hold = &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: 12_000, Release: true}
	return &p
}

// fake is the engine.
type fake struct{ w *world }

func (f fake) Do(p *engine.Pipeline) {
	w, now := f.w, f.w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p.Grow()
	if w.panics {
		w.panicked++
		panic("as the test asks")
	}
	renewals := 0
	for i := range p.Requests {
		r, res := &p.Requests[i], &p.Results[i]
		n := leaseName{string(r.Key), r.Hold.ID}
		switch r.Op {
		case engine.OpSettle:
			w.settling++
			w.await(w.gate)
		case engine.OpRenew:
			w.renewing++
			w.await(w.late)
		}
		if w.down {
			res.Err = &engine.Unavailable{Node: "a:1", Why: "no answer in 50ms"}
			continue
		}
		live := w.live[n] > now
		switch r.Op {
		case engine.OpRenew:
			if renewals++; live {
				res.Renewed, w.live[n] = true, now+r.Hold.TTL
			}
		case engine.OpSettle:
			res.Settled.Settled = live
			delete(w.live, n)
		default:
			if res.Allowed = live || len(w.live) < w.slots; res.Allowed {
				w.live[n] = now + r.Hold.TTL
			}
		}
	}
	if renewals > 0 {
		w.renewals = append(w.renewals, renewals)
	}
}

// await waits until gate is closed, if there is one. w.mu is held, but not while await waits.
func (w *world) await(gate chan struct{}) {
	if gate == nil {
		return
	}
	w.mu.Unlock()
	<-gate
	w.mu.Lock()
}

// slow is the engine behind a slow network.
type slow struct{ fake }

func (s slow) Do(p *engine.Pipeline) {
	time.Sleep(rand.N(60 * time.Millisecond)) // #nosec G404 -- a test's choice
	s.fake.Do(p)
	time.Sleep(rand.N(60 * time.Millisecond)) // #nosec G404 -- a test's choice
}

func (f fake) Where([]byte) (node string, shards int) { return "a:1", 1 }
func (f fake) Nodes() []engine.NodeInfo               { return nil }
func (f fake) Stats() []engine.Stat                   { return nil }
func (f fake) Close() error                           { return nil }
