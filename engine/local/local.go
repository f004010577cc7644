// Package local decides for FAIL LOCAL, and keeps what has yet to be written back to the nodes: for each state, what it
// still counts, whatever the limit. So the admissions of all proxies add up on the nodes.
//
// What was written back is still counted here until it has left its window. So all outages together admit at most the
// limit here. A request that its node may have applied is counted here, so that the limit holds, but it is not written
// back: nothing is charged twice.
package local

import (
	"cmp"
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
)

// Ledger has what FAIL LOCAL admitted. It is safe for concurrent use.
type Ledger struct {
	counted   *memory.Engine // what was admitted in the windows up to now; it decides
	unwritten *memory.Engine // the part of it that has yet to be written back
	woken     chan struct{}
	logger    *slog.Logger

	stop   context.CancelFunc
	rounds sync.WaitGroup

	written atomic.Int64 // states written back
	lost    atomic.Int64 // states that could not be written back, or of which that is not known
}

const (
	// writeBatch is how many states are written back at a time.
	writeBatch = 256

	// writeEvery is the least time between two rounds: a node that fails now and then does not have all keys looked
	// through each time.
	writeEvery = 100 * time.Millisecond

	// askEvery is the time until another round, if the last one says that it is due.
	askEvery = time.Second
)

// Open returns an empty ledger that takes at most so many bytes of memory; 0: no bound. What is counted and what is
// unwritten have half of them each: nothing is unwritten that is not counted.
func Open(maxMemory int64, logger *slog.Logger) *Ledger {
	half := memory.Config{MaxMemory: (maxMemory + 1) / 2, Logger: logger.With("fail-policy", "local")}
	half.Fail = engine.FailClosed
	counted := memory.Open(half)
	half.Logger = slog.New(slog.DiscardHandler) // it is full when the other one is
	return &Ledger{counted: counted, unwritten: memory.Open(half), woken: make(chan struct{}, 1), logger: logger}
}

// Start starts the goroutine that calls round after Wake, and again for as long as round returns true. It is the
// reconciler.
func (l *Ledger) Start(round func(context.Context) (again bool)) {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.rounds.Go(func() { l.run(ctx, round) }) // until Stop
}

// Stop ends the rounds, once the nodes have answered the batch under way. Requests are still decided, until Close.
func (l *Ledger) Stop() {
	l.stop()
	l.rounds.Wait()
}

func (l *Ledger) run(ctx context.Context, round func(context.Context) (again bool)) {
	due := false // another round, soon
	for {
		var again <-chan time.Time
		if due {
			again = time.After(askEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		case <-again:
		}
		backend.Guard(l.logger, "writing back what FAIL LOCAL counted", func() { due = round(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-time.After(writeEvery):
		}
	}
}

// Close releases what the ledger has.
func (l *Ledger) Close() error { return errors.Join(l.counted.Close(), l.unwritten.Close()) }

// Wake requests a round, because nodes may take what is unwritten.
func (l *Ledger) Wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// Decide answers a request, or all keys of a multi-key request together, by what is counted here. It modifies requests.
// A request with an id is charged at once, even if it asked for a hold, and its id is not stored: a retry may be
// charged again. maybeApplied reports whether the nodes may have applied the request. Results have FAIL LOCAL, or FAIL
// CLOSED if there is no memory left to count in.
func (l *Ledger) Decide(requests []engine.Request, maybeApplied bool) []engine.Result {
	p := engine.Pipeline{Requests: requests}
	for i := range requests {
		r := &requests[i]
		r.Hold, r.MoreKeys, r.Fail = nil, 0, engine.FailDefault // if memory is full, see Open
	}
	requests[0].MoreKeys = len(requests) - 1
	l.counted.Do(&p)
	requests[0].MoreKeys = 0
	for i := range p.Results {
		res := &p.Results[i]
		res.Fail, res.Remaining = cmp.Or(res.Fail, engine.FailLocal), -1
		if res.Allowed && !maybeApplied {
			l.add(&requests[i])
		}
	}
	return p.Results
}

// add adds what r charges to what has yet to be written back.
func (l *Ledger) add(r *engine.Request) {
	if r.Cost == 0 || !r.Kind.Additive() {
		return
	}
	p := engine.Pipeline{Requests: []engine.Request{*r}}
	for i := range r.N {
		p.Requests[0].Windows[i].Limit = limit.MaxLimit
	}
	if l.unwritten.Do(&p); !p.Results[0].Allowed {
		l.lost.Add(1) // memory is full
	}
}

// Forget forgets a key, as RL.RESET does.
func (l *Ledger) Forget(key []byte) {
	l.unwritten.Forget(key)
	l.counted.Forget(key)
}

// WriteBack has do answer requests that charge what is unwritten of the keys that pass, until ctx ends. It reports
// whether another round is due, because something certainly was not charged: a node failed or refused it, or a split
// key's home denied it because a shard cannot be reached, whose lease it serves until that ends.
func (l *Ledger) WriteBack(ctx context.Context, pass func(key string) bool, do func(*engine.Pipeline)) (again bool) {
	p := new(engine.Pipeline)
	write := func() {
		again = l.write(ctx, p, do) || again
		p.Reset()
	}
	for stripe := 0; stripe < memory.Stripes && l.unwritten.Keys() > 0 && ctx.Err() == nil; stripe++ {
		for _, t := range l.unwritten.Take(stripe, pass) {
			for _, st := range l.left(t) {
				if *p.Add() = chargeOf(t.Key, &st); len(p.Requests) == writeBatch {
					write()
				}
			}
		}
	}
	write()
	return again
}

// left returns the states that a key still counts. Units that have left their window here since they were admitted do
// not count any more.
func (l *Ledger) left(t memory.Taken) (states []engine.Inspection) {
	inspect := engine.Pipeline{Requests: []engine.Request{{Op: engine.OpInspect, Key: []byte(t.Key)}}}
	l.counted.Do(&inspect)
	for _, st := range t.States {
		units := int64(0)
		for _, all := range inspect.Results[0].States {
			if all.Kind == st.Kind && all.Window == st.Window && all.Param == st.Param {
				units = min(st.Used, all.Used)
			}
		}
		if st.Used = units; units > 0 {
			states = append(states, st)
		}
	}
	return states
}

// chargeOf returns a request to charge the units of a state, with the largest limit there is: what was admitted was
// admitted. A split key's home is asked, which has nothing to lend out of such a limit.
func chargeOf(key string, st *engine.Inspection) engine.Request {
	return engine.Request{
		Key: []byte(key), Fail: engine.FailError, Shards: 1,
		Spec: limit.Spec{
			Kind: st.Kind, N: 1, Cost: st.Used, Param: st.Param,
			Windows: [limit.MaxWindows]limit.Window{{Limit: limit.MaxLimit, Length: st.Window}},
		},
	}
}

// write has do answer p, unless ctx has ended. What certainly was not charged has yet to be written, in a later round.
// write reports whether there is any.
func (l *Ledger) write(ctx context.Context, p *engine.Pipeline, do func(*engine.Pipeline)) (again bool) {
	if ctx.Err() != nil {
		for i := range p.Requests {
			l.add(&p.Requests[i])
		}
		return false
	}
	do(p)
	for i := range p.Results {
		var failed *engine.Unavailable
		switch res := &p.Results[i]; {
		case res.Err == nil && res.Allowed:
			l.written.Add(1)
		case errors.As(res.Err, &failed) && failed.MaybeApplied:
			l.lost.Add(1)
		default:
			l.add(&p.Requests[i])
			again = true
		}
	}
	return again
}

// Stats returns what INFO and metrics show of the ledger.
func (l *Ledger) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "local_keys", Value: l.counted.Keys(), Metric: "local_keys",
			Help: "Keys with state that FAIL LOCAL keeps in this process."},
		{Name: "local_unwritten", Value: l.unwritten.Keys(), Metric: "local_keys_unwritten",
			Help: "Keys of FAIL LOCAL whose use is not written back to their nodes."},
		{Name: "local_written_back", Value: l.written.Load(), Metric: "local_written_back_total",
			Help: "Uses counted by FAIL LOCAL that were written back to nodes."},
		{Name: "local_lost", Value: l.lost.Load(), Metric: "local_lost_total",
			Help: "Uses counted by FAIL LOCAL that could not be written back."},
		{Name: "local_refused_for_memory", Value: l.counted.Refused(), Metric: "local_memory_refusals_total",
			Help: "Requests of FAIL LOCAL that found no room in memory."},
	}
}
