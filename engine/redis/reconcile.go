package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// reconciler decides for FAIL LOCAL, and writes what was counted here back to the
// nodes when they take it: each state is charged to its node as one request for what
// it still counts, whatever the limit. So the admissions of all proxies add up there.
//
// What was written back is still counted here until it has left its window. So all
// outages together admit at most the limit here.
//
// A request that its node may have applied is counted here, so that the limit holds, but it is not written back: nothing is
// charged twice. While a node refuses calls, it is only asked now and then about the key of the last one. It is also asked if
// there is nothing to write, because clients may send nothing to a proxy that is not ready.
type reconciler struct {
	e         *Engine
	counted   *memory.Engine // what FAIL LOCAL admitted in the windows up to now; it decides
	unwritten *memory.Engine // the part of it that has yet to be written back
	woken     chan struct{}
	stop      context.CancelFunc
	done      sync.WaitGroup
	again     bool // whether another round is due soon; used only by the goroutine of run

	written atomic.Int64 // states written back
	lost    atomic.Int64 // states that could not be written back, or of which that is not known
}

const (
	// writeBatch is how many states are written back at a time.
	writeBatch = 256

	// writeEvery is the least time between two rounds: a node that fails now and then
	// does not have all keys looked through each time.
	writeEvery = 100 * time.Millisecond

	// askEvery is the time between two questions to a node that refuses calls.
	askEvery = time.Second
)

// newReconciler returns a reconciler. What is counted and what is unwritten have half
// of the memory each: nothing is unwritten that is not counted.
func newReconciler(e *Engine) *reconciler {
	half := memory.Config{MaxMemory: (e.config.LocalMemory + 1) / 2, Settings: memory.Settings{Fail: engine.FailClosed}, Logger: e.config.Logger.With("fail-policy", "local")}
	counted := memory.Open(half)
	half.Logger = slog.New(slog.DiscardHandler) // it is full when the other one is
	return &reconciler{e: e, counted: counted, unwritten: memory.Open(half), woken: make(chan struct{}, 1)}
}

func (rc *reconciler) open() {
	ctx, stop := context.WithCancel(context.Background())
	rc.stop = stop
	rc.done.Add(1)
	go rc.run(ctx) // until stopWriting
}

// stopWriting ends the rounds, once the nodes have answered the batch under way. Requests are still decided, until close.
func (rc *reconciler) stopWriting() {
	rc.stop()
	rc.done.Wait()
}

func (rc *reconciler) close() error { return errors.Join(rc.counted.Close(), rc.unwritten.Close()) }

// wake requests a round.
func (rc *reconciler) wake() {
	select {
	case rc.woken <- struct{}{}:
	default:
	}
}

func (rc *reconciler) run(ctx context.Context) {
	defer rc.done.Done()
	for {
		var again <-chan time.Time
		if rc.again {
			again = time.After(askEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-rc.woken:
		case <-again:
		}
		backend.Guard(rc.e.config.Logger, "writing back what FAIL LOCAL counted", func() { rc.round(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-time.After(writeEvery):
		}
	}
}

// decide answers a request, or all keys of a multi-key request together, by what is counted here. It modifies requests.
// A request with an id is charged at once, even if it asked for a hold, and its id is not stored: a retry may be charged
// again. maybeApplied reports whether the nodes may have applied the request.
func (rc *reconciler) decide(requests []engine.Request, maybeApplied bool) []engine.Result {
	p := engine.Pipeline{Requests: requests}
	for i := range requests {
		r := &requests[i]
		r.Hold, r.MoreKeys, r.Fail = nil, 0, engine.FailDefault // if memory is full, see newReconciler
	}
	requests[0].MoreKeys = len(requests) - 1
	rc.counted.Do(&p)
	requests[0].MoreKeys = 0
	for i := range p.Results {
		res := &p.Results[i]
		res.Remaining = -1
		if res.Allowed && !maybeApplied {
			rc.add(&requests[i])
		}
	}
	return p.Results
}

// add adds what r charges to what has yet to be written back.
func (rc *reconciler) add(r *engine.Request) {
	if r.Cost == 0 || !r.Kind.Additive() {
		return
	}
	p := engine.Pipeline{Requests: []engine.Request{*r}}
	for i := range r.N {
		p.Requests[0].Windows[i].Limit = limit.MaxLimit
	}
	if rc.unwritten.Do(&p); !p.Results[0].Allowed {
		rc.lost.Add(1) // memory is full
	}
}

// forget forgets a key, as RL.RESET does.
func (rc *reconciler) forget(key []byte) {
	rc.unwritten.Forget(key)
	rc.counted.Forget(key)
}

// round writes back what nodes take. Contested keys wait until the proxies agree on their
// nodes.
func (rc *reconciler) round(ctx context.Context) {
	conflict := rc.e.layout.Conflict.Load()
	rc.again = conflict != nil
	top := rc.e.queues.OpenAll()
	takes := make([]bool, len(top.Queues))
	for i, q := range top.Queues {
		switch refused := q.refused.Load(); {
		case q.Health() != backend.Up:
		case refused == nil:
			takes[i] = true
		case top.Locate([]byte(refused.key), 0) != i: // a shard of the key was refused: ask would reach another node
			rc.again, takes[i] = true, true
		default:
			rc.again = true
			rc.ask(refused.key)
			takes[i] = q.takesWrites()
		}
	}
	pass := func(key string) bool {
		name := []byte(key)
		return takes[top.Locate(name, 0)] && (conflict == nil || !conflict.Contested(name, rc.e.splits.Shards(name)))
	}
	p := &engine.Pipeline{}
	for stripe := 0; stripe < memory.Stripes && rc.unwritten.Keys() > 0 && ctx.Err() == nil; stripe++ {
		for _, t := range rc.unwritten.Take(stripe, pass) {
			rc.charge(ctx, p, t)
		}
	}
	rc.write(ctx, p)
}

// ask asks the home of a key about it, which charges nothing, so that the node's queue learns whether the node still refuses
// calls. It is no request of a client, so no FAIL policy answers it.
func (rc *reconciler) ask(key string) {
	r := chargeOf(key, limit.Fixed, 1000, 1, 0)
	rc.e.Call(r.Key, []*split.Call{{Function: lua.Decide, Args: append([][]byte{nil}, wire.AllArgs([]engine.Request{r})...)}})
}

// chargeOf returns a request to charge units, with the largest limit there is: what was
// admitted was admitted. A split key's home is asked, which has nothing to lend out of
// such a limit.
func chargeOf(key string, kind limit.Kind, window, buckets, units int64) engine.Request {
	return engine.Request{
		Key: []byte(key), Fail: engine.FailError, Shards: 1,
		Spec: limit.Spec{
			Kind: kind, N: 1, Cost: units, Param: buckets,
			Windows: [limit.MaxWindows]limit.Window{{Limit: limit.MaxLimit, Length: window}},
		},
	}
}

// charge asks for what a key still counts to be charged. Units that have left their
// window here since they were admitted do not count any more.
func (rc *reconciler) charge(ctx context.Context, p *engine.Pipeline, t memory.Taken) {
	inspect := engine.Pipeline{Requests: []engine.Request{{Op: engine.OpInspect, Key: []byte(t.Key)}}}
	rc.counted.Do(&inspect)
	for _, st := range t.States {
		units := int64(0)
		for _, all := range inspect.Results[0].States {
			if all.Kind == st.Kind && all.Window == st.Window && all.Param == st.Param {
				units = min(st.Used, all.Used)
			}
		}
		if units <= 0 {
			continue
		}
		if *p.Add() = chargeOf(t.Key, st.Kind, st.Window, st.Param, units); len(p.Requests) == writeBatch {
			rc.write(ctx, p)
		}
	}
}

// write asks the nodes, unless ctx has ended. What certainly was not charged has yet to be written, in a
// later round: a node failed or refused it, or a split key's home denied it because a
// shard cannot be reached, whose lease it serves until that ends.
func (rc *reconciler) write(ctx context.Context, p *engine.Pipeline) {
	if ctx.Err() != nil {
		for i := range p.Requests {
			rc.add(&p.Requests[i])
		}
		p.Reset()
		return
	}
	rc.e.Do(p)
	for i := range p.Results {
		var failed *engine.Unavailable
		switch res := &p.Results[i]; {
		case res.Err == nil && res.Allowed:
			rc.written.Add(1)
		case errors.As(res.Err, &failed) && failed.MaybeApplied:
			rc.lost.Add(1)
		default:
			rc.add(&p.Requests[i])
			rc.again = true
		}
	}
	p.Reset()
}

func (rc *reconciler) stats() []engine.Stat {
	return []engine.Stat{
		{Name: "local_keys", Value: rc.counted.Keys(), Metric: "local_keys", Help: "Keys with state that FAIL LOCAL keeps in this process."},
		{Name: "local_unwritten", Value: rc.unwritten.Keys(), Metric: "local_keys_unwritten", Help: "Keys of FAIL LOCAL whose use is not written back to their nodes."},
		{Name: "local_written_back", Value: rc.written.Load(), Metric: "local_written_back_total", Help: "Uses counted by FAIL LOCAL that were written back to nodes."},
		{Name: "local_lost", Value: rc.lost.Load(), Metric: "local_lost_total", Help: "Uses counted by FAIL LOCAL that could not be written back."},
		{
			Name: "local_refused_for_memory", Value: rc.counted.Refused(), Metric: "local_memory_refusals_total",
			Help: "Requests of FAIL LOCAL that found no room in memory.",
		},
	}
}
