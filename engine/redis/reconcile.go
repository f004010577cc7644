package redis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
)

// reconciler decides for FAIL LOCAL, and writes what was counted here back to the
// nodes when they answer again: each state is charged to its node once, as one
// request for what it still counts, whatever the limit. So the admissions of all
// proxies add up there.
//
// A request that its node may have applied is counted here, so that the limit holds,
// but it is not written back: nothing is charged twice.
type reconciler struct {
	e    *Engine
	look chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup

	mu           sync.Mutex
	maybeApplied map[counted]int64 // guarded by mu: units that a node may have, of at most maxMaybe states

	written atomic.Int64 // states written back
	lost    atomic.Int64 // states of which the node did not say that it has them
}

// counted names a state.
type counted struct {
	key     string
	kind    limit.Kind
	window  int64
	buckets int64
}

const (
	// maxMaybe bounds the states with units that a node may have. They come from the
	// batches under way when a node fails, some thousands of requests.
	maxMaybe = 65_536

	// writeBatch is how many states are written back at a time.
	writeBatch = 256

	// writeEvery is the least time between two rounds: a node that fails now and then
	// does not have all keys looked through each time.
	writeEvery = 100 * time.Millisecond
)

func newReconciler(e *Engine) *reconciler {
	return &reconciler{e: e, look: make(chan struct{}, 1), maybeApplied: make(map[counted]int64)}
}

func (s *reconciler) open() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Add(1)
	go s.run(ctx) // until close
}

func (s *reconciler) close() {
	s.stop()
	s.done.Wait()
}

// wake has a round begin soon.
func (s *reconciler) wake() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

func (s *reconciler) run(ctx context.Context) {
	defer s.done.Done()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.look:
		}
		backend.Guard(s.e.config.Logger, "writing back what FAIL LOCAL counted", s.round)
		select {
		case <-ctx.Done():
			return
		case <-time.After(writeEvery):
		}
	}
}

// decide answers a request by what is counted here. The node may have applied it if
// maybeApplied is true.
func (s *reconciler) decide(r *engine.Request, res *engine.Result, maybeApplied bool) {
	if maybeApplied && !s.hasRoom() {
		res.Decision = engine.PolicyClosed.Decide(r, 1)
		return
	}
	if maybeApplied {
		s.addMaybe(r, r.Cost)
	}
	p := engine.Pipeline{Requests: []engine.Request{*r}}
	s.e.local.Do(&p)
	*res = p.Results[0]
	res.Remaining = -1
	if maybeApplied && !res.Allowed {
		s.addMaybe(r, -r.Cost)
	}
}

// addMaybe notes that the node may have more units, or fewer, of what r charges here.
func (s *reconciler) addMaybe(r *engine.Request, units int64) {
	if units == 0 || !r.Kind.Additive() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range r.Limits() {
		at := counted{string(r.Key), r.Kind, w.Length, r.Buckets}
		if s.maybeApplied[at] += units; s.maybeApplied[at] <= 0 {
			delete(s.maybeApplied, at)
		}
	}
}

// hasRoom reports whether units that a node may have can be remembered.
func (s *reconciler) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.maybeApplied) >= maxMaybe && s.e.local.Keys() == 0 {
		clear(s.maybeApplied) // of states that have ended
	}
	return len(s.maybeApplied) < maxMaybe
}

// certain returns how much of a state's use the node cannot have.
func (s *reconciler) certain(key string, st *engine.State) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := counted{key, st.Kind, st.Window, st.Buckets}
	units := st.Used - s.maybeApplied[at]
	delete(s.maybeApplied, at)
	return units
}

// round writes back what is counted for nodes that are up.
func (s *reconciler) round() {
	top := s.e.topology()
	up := func(key string) bool { return top.Nodes[top.Locate([]byte(key), 0)].State() == backend.Up }
	p := &engine.Pipeline{}
	for stripe := 0; stripe < memory.Stripes && s.e.local.Keys() > 0; stripe++ {
		for _, t := range s.e.local.Take(stripe, up) {
			for i := range t.States {
				s.add(p, t.Key, &t.States[i])
			}
		}
	}
	s.write(p)
}

// add asks for a state to be charged. The limit is the largest there is: what was
// admitted was admitted. A split key's home is asked, which has nothing to lend out of
// such a limit.
func (s *reconciler) add(p *engine.Pipeline, key string, st *engine.State) {
	units := s.certain(key, st)
	if units <= 0 {
		return
	}
	*p.Add() = engine.Request{
		Key: []byte(key), Fail: engine.PolicyError, Shards: 1,
		Spec: limit.Spec{
			Kind: st.Kind, N: 1, Cost: units, Buckets: st.Buckets,
			Windows: [limit.MaxWindows]limit.Window{{Limit: limit.MaxLimit, Length: st.Window}},
		},
	}
	if len(p.Requests) == writeBatch {
		s.write(p)
	}
}

// write asks, and counts here again what was denied: while a shard of a split key
// cannot be reached, its home admits nobody past the limit that the shard's lease
// serves. That is over within a lease, and a later round writes it back.
func (s *reconciler) write(p *engine.Pipeline) {
	s.e.Do(p)
	var denied engine.Pipeline
	for i := range p.Results {
		switch res := &p.Results[i]; {
		case res.Err != nil:
			s.lost.Add(1)
		case res.Allowed:
			s.written.Add(1)
		default:
			*denied.Add() = p.Requests[i]
		}
	}
	p.Reset()
	if len(denied.Requests) == 0 {
		return
	}
	s.e.local.Do(&denied)
	for i := range denied.Results {
		if !denied.Results[i].Allowed {
			s.lost.Add(1) // it has found no room
		}
	}
	s.wake()
}

func (s *reconciler) info() []engine.Field {
	return []engine.Field{
		{Name: "local_keys", Value: strconv.FormatInt(s.e.local.Keys(), 10)},
		{Name: "local_written_back", Value: strconv.FormatInt(s.written.Load(), 10)},
		{Name: "local_lost", Value: strconv.FormatInt(s.lost.Load(), 10)},
	}
}
