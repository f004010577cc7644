// Package purse keeps the advances of a proxy: it has the balances of package advance and a clock, and takes its calls
// to the homes of keys. Nobody waits for a call: it is one item in the queue of the key's node.
package purse

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/advance"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// Homes calls the nodes that have the homes of keys.
type Homes interface {
	// Begin starts a call about a key, and returns at once. done is called when it has its Reply or its Failure, maybe
	// before Begin returns.
	Begin(key []byte, c *split.Call, done func())
}

// Purse keeps the advances of a proxy. It is for use by many goroutines.
type Purse struct {
	advance.Balances

	// Rate is the calls per second that charge a key at its node from which on the answer must be heard. It is read
	// without a call in the path of every decision.
	Rate atomic.Int64

	homes    Homes
	proxy    string // this process
	now      func() time.Time
	began    time.Time
	topology atomic.Pointer[backend.Topology] // that of the newest request

	watched chan struct{} // has a value if there is a balance again
	stop    chan struct{}
	done    sync.WaitGroup
}

const (
	// tick is the time between two looks for calls that no request causes.
	tick = 10 * time.Millisecond
	// rare is the Rate with advances: keys with fewer calls are not hot, however far their nodes are.
	rare  = 2
	never = 1 << 62
)

// Open returns a purse that asks for nothing before Configure.
func Open(homes Homes, now func() time.Time) *Purse {
	p := &Purse{homes: homes, proxy: registry.Name(), now: now, began: now(), watched: make(chan struct{}, 1),
		stop: make(chan struct{})}
	p.Open(p.call)
	p.Configure(0)
	p.done.Go(p.run) // until Close
	return p
}

// Configure sets for how long units are advanced; 0: never.
func (p *Purse) Configure(usual time.Duration) {
	p.Balances.Configure(usual.Milliseconds())
	if p.Rate.Store(never); usual > 0 {
		p.Rate.Store(rare)
	}
}

// instant returns a moment by both clocks.
func (p *Purse) instant(t time.Time) advance.Instant {
	return advance.Instant{Monotonic: t.Sub(p.began), Wall: time.Duration(t.UnixNano())}
}

// Draw reports whether a request is admitted from an advance, and sets its result then. t is the topology by which it
// would be sent to a node. A key may have another home by a new one, so advances made under the old one are given back.
func (p *Purse) Draw(t *backend.Topology, r *engine.Request, res *engine.Result) bool {
	if r.Op != engine.OpDecide || r.Cost == 0 || r.Hold != nil || r.Shards > 1 {
		return false
	}
	if old := p.topology.Load(); old != t && p.topology.CompareAndSwap(old, t) {
		p.RecallAll()
	}
	res.Drawn, res.Lapsed = p.Balances.Draw(r.Key, &r.Spec, p.instant(p.now()), &res.Decision)
	return res.Drawn
}

// Heard takes the answer a of a node to r. roundTrip is how long the node took, and waited how long r has waited in
// all. Heard reports whether what is undecided, because advances were recalled, is to be asked again, after Pause. If
// the answer would then come too late for patience, what is advanced counts as used: a denial says that there may be
// room after another round trip.
func (p *Purse) Heard(r *engine.Request, a *wire.Answer, roundTrip, waited, patience time.Duration) (again bool) {
	if p.hot(a.Rate, roundTrip) {
		p.watch(r, a, roundTrip)
	}
	if !a.Recalled {
		return false
	}
	p.Recall(r.Key)
	again = waited+Pause(waited)+roundTrip < patience
	if !again {
		a.Usages[0].Room = roundTrip.Milliseconds() + 1
	}
	return again
}

// Pause returns how long a request waits for advances to come back before its node is asked again, if it has waited
// for some time already: for as long again, but no more than 16 ms.
func Pause(waited time.Duration) time.Duration {
	return min(max(waited, time.Millisecond), 16*time.Millisecond)
}

// hot reports whether so many calls per second that charge a key make it hot, if an answer of its node takes so long.
// They are half of the requests for which an advance pays, because a call may have several.
func (p *Purse) hot(calls int64, roundTrip time.Duration) bool {
	period := max(advance.Usual, advance.Trips*roundTrip.Milliseconds())
	return calls >= p.Rate.Load() && calls*period >= 500*advance.Pays(period, roundTrip)
}

// watch counts the requests like r from now on. If the answer leaves little room, nothing would be advanced.
func (p *Purse) watch(r *engine.Request, a *wire.Answer, roundTrip time.Duration) {
	if r.Op != engine.OpDecide || r.Hold != nil || r.Shards > 1 {
		return
	}
	for i, w := range r.Limits() {
		if left := w.Limit - a.Usages[i].Used - a.Granted*r.Cost; left < 2*w.Limit/advance.Reserve {
			return
		}
	}
	p.Watch(r.Key, &r.Spec, p.instant(p.now()), roundTrip)
	select {
	case p.watched <- struct{}{}:
	default:
	}
}

// Recall gives back the advances for a key, because its home wants them, or the key was reset.
func (p *Purse) Recall(key []byte) {
	if p.Size.Load() > 0 {
		p.Balances.Recall(key, p.instant(p.now()))
	}
}

// call takes a call to the home.
func (p *Purse) call(c *advance.HomeCall) {
	f := lua.Advance
	if c.Want == 0 {
		f = lua.Account
	}
	call := &split.Call{Function: f, Args: wire.Args(wire.NewAdvanceAsk(p.proxy, &c.Spec, c.Message, c.Span))}
	p.homes.Begin(c.Key, call, func() {
		var terms *advance.Terms
		var used, empty []int64
		if call.Failure == nil {
			if a, err := wire.DecodeAdvance(call.Reply, &c.Spec); err == nil { // else as if there were no answer
				terms, used, empty = &a.Terms, a.Used, a.Empty
			}
		}
		p.End(c, p.instant(p.now()), terms, used, empty)
	})
}

// Tick sends the calls that are due although no request came.
func (p *Purse) Tick() { p.Balances.Tick(p.instant(p.now())) }

// run sends the calls that no request causes, while there are any balances.
func (p *Purse) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.watched:
		}
		for p.Size.Load() > 0 {
			select {
			case <-p.stop:
				return
			case <-ticker.C:
				p.Tick()
			}
		}
	}
}

// Close gives back all advances. It waits for the answers for at most the given time.
func (p *Purse) Close(patience time.Duration) {
	p.Configure(0)
	close(p.stop)
	p.done.Wait()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end) && p.Totals().Out > 0; <-ticker.C {
		p.Tick()
	}
}
