package engine

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// EmbeddedConfig says how an embedded engine is to be.
type EmbeddedConfig struct {
	// MaxMemory bounds the bytes that keys and their states hold; 0 means no bound.
	// The process needs more: Go's collector keeps up to as much again in garbage.
	MaxMemory int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Policy answers for a key that finds no room, when its request names none.
	// PolicyDefault and PolicyLocal, having nowhere to turn to, are PolicyClosed.
	// Rules, first match first, take precedence.
	Policy Policy
	Rules  []PolicyRule
}

// Embedded is the engine that keeps state in this process's memory. Every key ends
// when it can matter no more, without being asked for. When memory is full, keys
// that have ended go first; none that still matters is given up: what finds no
// room gets its policy.
type Embedded struct {
	cfg     EmbeddedConfig
	seed    maphash.Seed
	stripes [stripeCount]stripe

	memory  atomic.Int64 // bytes reckoned, of all stripes
	keys    atomic.Int64
	expired atomic.Int64
	refused atomic.Int64
	swept   atomic.Int64 // the ms of the clock at which all stripes were last swept

	busy *busiest

	stop chan struct{}
	done sync.WaitGroup
}

// stripeCount is large enough that sessions seldom meet at a lock and that what is
// done to a whole stripe, once in a while, is short.
const stripeCount = 256

// sweepEvery is how often the janitor looks for keys that have ended.
const sweepEvery = 100 * time.Millisecond

// ErrNoBackend answers a request that only a backend node can.
var ErrNoBackend = errors.New("the embedded engine has no backend")

const (
	embeddedNode = "embedded"
	memoryFull   = "memory is full"
)

// NewEmbedded returns an empty engine and starts its janitor, which Close stops.
func NewEmbedded(cfg EmbeddedConfig) *Embedded {
	e := newEmbedded(cfg)
	e.done.Add(1)
	go e.janitor() // until Close
	return e
}

// newEmbedded returns an engine without a janitor.
func newEmbedded(cfg EmbeddedConfig) *Embedded {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Policy = cfg.Policy.or(PolicyClosed); cfg.Policy == PolicyLocal {
		cfg.Policy = PolicyClosed
	}
	e := &Embedded{cfg: cfg, seed: maphash.MakeSeed(), busy: newBusiest(), stop: make(chan struct{})}
	for i := range e.stripes {
		e.stripes[i].keys = make(map[string]*record)
	}
	return e
}

// Close stops the janitor and waits for it. It is called once; Do may still be.
func (e *Embedded) Close() error {
	close(e.stop)
	e.done.Wait()
	return nil
}

// Keys returns the number of keys with state.
func (e *Embedded) Keys() int64 { return e.keys.Load() }

// Memory returns the bytes that keys and their states are reckoned to hold.
func (e *Embedded) Memory() int64 { return e.memory.Load() }

// MaxMemory returns the bound on Memory, 0 if there is none.
func (e *Embedded) MaxMemory() int64 { return e.cfg.MaxMemory }

// Expired returns how many keys have ended since the start.
func (e *Embedded) Expired() int64 { return e.expired.Load() }

// Refused returns how many requests found no room and got their policy.
func (e *Embedded) Refused() int64 { return e.refused.Load() }

// Do answers p. One reading of the clock serves the whole pipeline.
func (e *Embedded) Do(p *Pipeline) {
	p.grow()
	clock := e.clock()
	for i := range p.Requests {
		r, res := &p.Requests[i], &p.Results[i]
		switch r.Op {
		case OpSlide, OpCounter, OpFixed:
			e.decide(clock, r, res)
		case OpThrottle:
			e.throttle(clock, r, res)
		case OpReset:
			res.Reset = e.reset(clock, r.Key)
		case OpInspect:
			res.States = e.inspect(clock, r.Key)
		default:
			res.Err = ErrNoBackend
		}
	}
	e.busy.observe(p)
}

// clock returns the ms since the epoch.
func (e *Embedded) clock() int64 { return max(e.cfg.Now().UnixMilli(), 0) }

func (e *Embedded) stripe(key []byte) *stripe {
	return &e.stripes[maphash.Bytes(e.seed, key)%stripeCount]
}

// decide answers one decision, by its policy if memory is full.
func (e *Embedded) decide(clock int64, r *Request, res *Result) {
	var vs [MaxWindows]verdict
	granted, room := e.ask(clock, r, 1, &vs)
	if !room {
		e.refuse(clock, r, res)
		return
	}
	res.Decision = r.decide(vs[:r.N], clock, granted, 0, resetOf(r.Op))
}

// refuse answers a request that found no room by its policy.
func (e *Embedded) refuse(clock int64, r *Request, res *Result) {
	e.refused.Add(1)
	p := r.policy(e.cfg.Rules, e.cfg.Policy)
	p.answer(r, res, e.untilSweep(clock), embeddedNode, memoryFull)
}

// resetOf returns how windows of op forget.
func resetOf(op Op) resetter {
	switch op {
	case OpSlide:
		return slideReset
	case OpCounter:
		return counterReset
	}
	return fixedReset
}
