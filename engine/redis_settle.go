package engine

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// settler decides for PolicyLocal, and hands what was counted here over to the nodes
// when they are back: each state is charged to its node once, as one request for what
// it still counts, whatever the limit. So admissions of all proxies add up there.
//
// A request that its node may have run is counted here, for the limit to hold, but
// not handed over: nothing is charged twice.
type settler struct {
	e    *Redis
	look chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	unsure map[counted]int64 // guarded by mu: units that the node may have, at most maxUnsure states

	settled atomic.Int64 // states handed over
	lost    atomic.Int64 // states of which the node did not say that it has them
}

// counted names a state.
type counted struct {
	key     string
	op      Op
	window  int64
	buckets int64
}

const (
	// maxUnsure bounds the states with units that a node may have. They come from
	// the batches under way when a node fails, some thousands of requests.
	maxUnsure = 65_536

	// settleBatch is how many states are handed over at a time.
	settleBatch = 256

	// settleEvery is the least time between two rounds: a node that fails now and
	// then does not have all keys looked through each time.
	settleEvery = 100 * time.Millisecond
)

func newSettler(e *Redis) *settler {
	return &settler{e: e, look: make(chan struct{}, 1), unsure: make(map[counted]int64)}
}

func (s *settler) open() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Add(1)
	go s.run(ctx) // until close
}

func (s *settler) close() {
	s.stop()
	s.done.Wait()
}

// wake has a round begin soon.
func (s *settler) wake() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

func (s *settler) run(ctx context.Context) {
	defer s.done.Done()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.look:
		}
		s.round()
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleEvery):
		}
	}
}

// decide answers an item by what is counted here.
func (s *settler) decide(it *item) {
	if it.unsure && !s.room() {
		it.res.Decision = policyDecision(it.req, PolicyClosed, 1)
		return
	}
	if it.unsure {
		s.doubt(it.req, it.req.Cost)
	}
	p := Pipeline{Requests: []Request{*it.req}}
	s.e.local.Do(&p)
	*it.res = p.Results[0]
	it.res.Remaining = -1
	if it.unsure && !it.res.Allowed {
		s.doubt(it.req, -it.req.Cost)
	}
}

// doubt notes that the node may have units more, or fewer, of what r charges here.
func (s *settler) doubt(r *Request, units int64) {
	if units == 0 || r.Op > OpFixed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range r.Windows[:r.N] {
		at := counted{string(r.Key), r.Op, w.Length, r.Buckets}
		if s.unsure[at] += units; s.unsure[at] <= 0 {
			delete(s.unsure, at)
		}
	}
}

// room tells whether units that a node may have can be remembered.
func (s *settler) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unsure) >= maxUnsure && s.e.local.Keys() == 0 {
		clear(s.unsure) // of states that have ended
	}
	return len(s.unsure) < maxUnsure
}

// sure returns what of a state's use the node cannot have.
func (s *settler) sure(key string, st *State) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := counted{key, st.Op, st.Window, st.Buckets}
	units := st.Used - s.unsure[at]
	delete(s.unsure, at)
	return units
}

// round hands over what is counted for nodes that are well.
func (s *settler) round() {
	top := s.e.topology.Load()
	well := func(key string) bool {
		at := top.locate([]byte(key), 0)
		return top.nodes[at].health.state.Load() == 0
	}
	p := &Pipeline{}
	for i := range s.e.local.stripes {
		if s.e.local.Keys() == 0 {
			break
		}
		for _, t := range s.e.local.take(i, well) {
			for j := range t.states {
				s.add(p, t.key, &t.states[j])
			}
		}
	}
	s.send(p)
}

// add asks for a state to be charged. The limit is the largest there is: what was
// admitted was admitted. A split key's home is asked, which has nothing to lend out of
// such a limit.
func (s *settler) add(p *Pipeline, key string, st *State) {
	units := s.sure(key, st)
	if units <= 0 {
		return
	}
	r := p.Add()
	*r = Request{
		Op: st.Op, Key: []byte(key), N: 1, Cost: units, Buckets: st.Buckets, Fail: PolicyError, Shards: 1,
		Windows: [MaxWindows]Window{{Limit: MaxLimit, Length: st.Window}},
	}
	if len(p.Requests) == settleBatch {
		s.send(p)
	}
}

// send asks, and counts here again what was denied: while a part of a split key cannot be
// reached, its home admits nobody past the limit that the part's lease serves. That is
// over within a lease, and a later round finds it so.
func (s *settler) send(p *Pipeline) {
	s.e.Do(p)
	var denied Pipeline
	for i := range p.Results {
		switch res := &p.Results[i]; {
		case res.Err != nil:
			s.lost.Add(1)
		case res.Allowed:
			s.settled.Add(1)
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

func (s *settler) info() []Field {
	return []Field{
		{"local_keys", strconv.FormatInt(s.e.local.Keys(), 10)},
		{"local_settled", strconv.FormatInt(s.settled.Load(), 10)},
		{"local_lost", strconv.FormatInt(s.lost.Load(), 10)},
	}
}
