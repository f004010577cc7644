// Package memory is the embedded engine: it keeps state in this process, behind sharded locks. It runs when no backend
// is configured, and decides for FAIL LOCAL while a node does not answer.
//
// A key is a record with a state for each algorithm, window and parameter of its requests (stripe.go). A
// decision finds the states, reads and charges them through package limit, and accounts for their memory (decide.go). A
// key is dropped once it can no longer matter (expiry.go, heap.go). Few keys have holds and remembered ids (hold.go). A
// multi-key request is decided under the locks of all its keys (multikey.go).
//
// Reading order: memory.go (this file), stripe.go, decide.go, hold.go, multikey.go, expiry.go, heap.go, inspect.go (for
// RL.INSPECT), take.go (for writing back what FAIL LOCAL counted).
package memory

import (
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/hold"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

// Config configures an Engine.
type Config struct {
	// MaxMemory bounds the bytes that keys and their states hold; 0 means no bound.
	// Holds are charged even if they exceed it, by at most two fifths: they have taken memory
	// while they were held. The process needs more: Go's collector keeps up to as much again in garbage.
	MaxMemory int64

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Settings are the initial settings.
	Settings

	// Logger gets a line when memory is full, and one every minute while it is; nil means slog.Default().
	Logger *slog.Logger
}

// Settings are the FAIL policies for requests whose key cannot be stored. Configure changes them.
type Settings struct {
	// Fail answers a request that names no FAIL policy. FailDefault and FailLocal mean
	// FailClosed, as there is no other engine.
	Fail engine.FailPolicy

	// FailRules take precedence over Fail; the first rule that matches a key applies.
	FailRules []engine.FailRule
}

// Engine keeps state in this process's memory. When memory is full, expired keys are
// dropped; live keys are never evicted. A request that does not fit gets its FAIL policy.
type Engine struct {
	cfg     Config
	live    atomic.Pointer[Settings] // in effect, never modified
	seed    maphash.Seed
	stripes [Stripes]stripe

	memory  atomic.Int64 // accounted bytes of all stripes
	keys    atomic.Int64
	expired atomic.Int64
	refused atomic.Int64
	swept   atomic.Int64 // the ms of the clock at which all stripes were last swept

	freed func(key []byte)  // nil: nobody wants to know, see OnFreed
	log   *episodes.Episode // of the FAIL policies that answer while memory is full

	stop chan struct{}
	done sync.WaitGroup
}

// Stripes is the number of locks, and of the parts into which the keys are divided. It is large enough that sessions
// seldom contend for a lock and that an operation on a whole stripe holds its lock briefly.
const Stripes = 256

// sweepEvery is how often the janitor looks for expired keys.
const sweepEvery = 100 * time.Millisecond

const nodeName = "embedded"

// Open returns an empty engine and starts its janitor, which Close stops.
func Open(cfg Config) *Engine {
	e := New(cfg)
	e.done.Go(e.janitor) // until Close
	return e
}

// New returns an empty engine without a janitor: expired keys stay until memory is needed.
func New(cfg Config) *Engine {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	e := &Engine{cfg: cfg, seed: maphash.MakeSeed(), stop: make(chan struct{})}
	e.log = episodes.New(cfg.Logger, cfg.Now, full, "maxmemory", cfg.MaxMemory)
	e.Configure(cfg.Settings)
	for i := range e.stripes {
		e.stripes[i].keys = make(map[string]*record)
		e.stripes[i].books = make(map[*record]*hold.Book)
	}
	return e
}

// Configure applies settings to the requests to come.
func (e *Engine) Configure(s Settings) {
	if s.Fail == engine.FailDefault || s.Fail == engine.FailLocal {
		s.Fail = engine.FailClosed
	}
	e.live.Store(&s)
}

// Close stops the janitor and waits for it. It must be called only once. Do may still
// be called afterwards. The error is always nil.
func (e *Engine) Close() error {
	close(e.stop)
	e.done.Wait()
	return nil
}

// Keys returns the number of keys with state.
func (e *Engine) Keys() int64 { return e.keys.Load() }

// Memory returns the accounted bytes of keys and their states.
func (e *Engine) Memory() int64 { return e.memory.Load() }

// Expired returns how many keys have expired since the start.
func (e *Engine) Expired() int64 { return e.expired.Load() }

// Refused returns how many requests did not fit into memory and got their FAIL policy.
func (e *Engine) Refused() int64 { return e.refused.Load() }

// Where implements engine.Engine.
func (e *Engine) Where([]byte) (node string, shards int) { return nodeName, 1 }

// Nodes implements engine.Engine.
func (e *Engine) Nodes() []engine.NodeInfo { return nil }

// Stats implements engine.Engine.
func (e *Engine) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "engine", Text: nodeName},
		{Name: "keys", Value: e.Keys(), Metric: "keys", Help: "Keys with state in this process."},
		{Name: "memory", Value: e.Memory(), Metric: "memory_used_bytes",
			Help: "Bytes of keys and their states in this process."},
		{Name: "max_memory", Value: e.cfg.MaxMemory, Metric: "memory_max_bytes", Help: "The setting maxmemory."},
		{Name: "expired_keys", Value: e.Expired(), Metric: "keys_expired_total", Help: "Keys whose state has ended."},
		{Name: "refused_for_memory", Value: e.Refused(), Metric: "memory_refusals_total",
			Help: "Requests that found no room in memory and got their FAIL policy."},
	}
}

// Do implements engine.Engine. One reading of the clock serves the whole pipeline.
func (e *Engine) Do(p *engine.Pipeline) {
	p.Grow()
	clock, ns := e.time()
	for i := 0; i < len(p.Requests); i++ {
		r, res := &p.Requests[i], &p.Results[i]
		r.Clock = clock*1_000_000 + ns
		switch r.Op {
		case engine.OpDecide:
			if r.Confirm != nil {
				r.Cost = r.Confirm()
			}
			switch {
			case r.Confirm != nil && r.Cost == 0: // denied
			case r.MoreKeys > 0:
				end := i + 1 + r.MoreKeys
				for j := i; j < end; j++ {
					p.Requests[j].Clock = r.Clock
				}
				e.decideMultiKey(clock, p.Requests[i:end], p.Results[i:end])
				i = end - 1
			case r.AnswerVerdict(res):
			case r.Hold != nil && r.Cost > 0:
				e.admit(clock, r, res)
			default:
				e.decide(clock, ns, r, res)
			}
		case engine.OpReset:
			res.Reset = e.reset(clock, r.Key)
			e.free(r.Key)
		case engine.OpInspect:
			res.States = e.inspect(clock, r.Key)
		case engine.OpSettle:
			e.settle(clock, r, res)
			if r.Kind == limit.Concurrency && res.Settled.Settled {
				e.free(r.Key)
			}
		case engine.OpRenew:
			e.renew(clock, r, res)
		}
	}
}

// OnFreed implements engine.Freer.
func (e *Engine) OnFreed(freed func(key []byte)) { e.freed = freed }

// free tells who waits that a key has room.
func (e *Engine) free(key []byte) {
	if e.freed != nil {
		e.freed(key)
	}
}

// time returns the ms since the epoch, and the ns beyond these.
func (e *Engine) time() (ms, ns int64) {
	now := e.cfg.Now()
	return max(now.UnixMilli(), 0), int64(now.Nanosecond() % 1_000_000)
}

// clock returns the ms since the epoch.
func (e *Engine) clock() int64 {
	ms, _ := e.time()
	return ms
}

func (e *Engine) stripe(key []byte) *stripe { return &e.stripes[e.stripeIndex(key)] }

func (e *Engine) stripeIndex(key []byte) int { return int(maphash.Bytes(e.seed, key) % Stripes) }

// refuse answers a request that did not fit into memory by its FAIL policy.
func (e *Engine) refuse(r *engine.Request, res *engine.Result) {
	e.refused.Add(1)
	live := e.live.Load()
	fail := r.FailPolicyFor(live.FailRules, live.Fail)
	if fail == engine.FailLocal {
		fail = engine.FailClosed // there is no other engine
	}
	e.log.Note(fail.String(), 1, func() []any { return nil })
	res.Fail = fail
	if fail == engine.FailError {
		res.Err = &engine.Unavailable{Node: nodeName, Why: errFull.Error()}
		return
	}
	res.Decision = fail.Decide(r, sweepEvery.Milliseconds()) // a key that does not fit now may fit then
}

// full is the trouble of an engine without memory for some keys.
var full = episodes.Trouble{
	Began: "maxmemory reached: FAIL policies are answering for keys that cannot be stored",
	Ended: "keys can be stored again: FAIL policies no longer answer for them",
	Calm:  episodes.Every,
}
