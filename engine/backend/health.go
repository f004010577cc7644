package backend

import (
	"context"
	"errors"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Health says whether a node answers.
type Health int32

// After one failure a node is Suspect and still gets requests. After two failures in a row it is Down, and requests are
// answered by their FAIL policy at once. A request that is not answered in time counts as a failure only if a probe
// fails too, or if no request was answered for lateTime: the node may be slow for the requests of one caller.
const (
	Up Health = iota
	Suspect
	Down
)

// String returns the health as INFO shows it.
func (s Health) String() string { return [...]string{"up", "suspect", "down"}[s] }

// healthCheck tracks the health of a node. After a failure or a check, a goroutine probes the node until it answers. A
// Suspect node is Up again after any reply, but a Down node only after the reply to a probe.
type healthCheck struct {
	name      string                      // the node's name, for the log
	config    *Config                     // the configuration of the fleet
	probe     func(context.Context) error // sends a probe
	record    func(error)                 // records a failed probe
	recovered func(was Health)            // called when the node is up again
	report    func() []any                // returns attributes for a log line about a node that is or was down

	// examine is called after a probe that was answered, and now and then. It calls up, before it logs anything, with
	// attributes for the log line about a node that is up again.
	examine func(_ context.Context, up func(about ...any))

	failures atomic.Int32           // failures in a row, at most 2: the numeric value of the Health
	failed   atomic.Int64           // failures in total while the node was not down, for INFO
	due      atomic.Int64           // when the next probe is due, in Unix ns
	cause    atomic.Pointer[string] // the reason for the last failure
	// when the first request was late of those since the last answer, in Unix ns; 0: none was
	lateFrom atomic.Int64

	turn sync.Mutex        // held while the state becomes Down, or ceases to be, and while this is logged
	down *episodes.Episode // while the state is Down

	lastUp  time.Time     // when a probe last brought the node up; used only by the prober
	trouble chan struct{} // wakes the prober
	stop    context.CancelFunc
	prober  sync.WaitGroup
}

const (
	probeMin    = 50 * time.Millisecond  // the shortest pause between two probes
	probeMax    = 500 * time.Millisecond // the longest pause between probes
	steadyAfter = time.Second            // a node that goes down sooner after it came up is flapping
	lateTime    = time.Second            // for so long, late requests do not take down a node that answers probes
)

// open starts the prober.
func (h *healthCheck) open() {
	h.trouble = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.prober.Go(func() { h.run(ctx) }) // until close
}

func (h *healthCheck) close() {
	h.stop()
	h.prober.Wait()
}

func (h *healthCheck) state() Health { return Health(h.failures.Load()) }

func (h *healthCheck) reason() string {
	if cause := h.cause.Load(); cause != nil {
		return *cause
	}
	return "node is down"
}

// untilProbe returns the ms until the next probe, at least 1. It is at most probeMax, also if the machine's clock
// was stepped back since the probe was planned.
func (h *healthCheck) untilProbe() int64 {
	due := min(time.Unix(0, h.due.Load()).Sub(h.config.Now()), probeMax)
	if due <= 0 && h.state() != Down {
		due = probeMin // no probe is planned: the next failure plans one
	}
	return max((due + time.Millisecond - 1).Milliseconds(), 1)
}

// succeed records a reply. It does not bring up a node that is down.
func (h *healthCheck) succeed() {
	h.lateFrom.Store(0)
	if h.failures.CompareAndSwap(int32(Suspect), int32(Up)) {
		h.recovered(Suspect)
	}
}

// late records that a request was not answered in time. It reports whether the node was not down yet.
func (h *healthCheck) late(err error) bool {
	if h.state() == Down {
		return false
	}
	now := h.config.Now().UnixNano()
	if !h.lateFrom.CompareAndSwap(0, now) && now-h.lateFrom.Load() >= int64(lateTime) {
		return h.fail(err)
	}
	h.note(err)
	h.failures.CompareAndSwap(int32(Up), int32(Suspect))
	h.doubt()
	return true
}

// fail records another failure. It reports whether the node was not down yet.
func (h *healthCheck) fail(err error) bool {
	h.note(err)
	for {
		was := h.failures.Load()
		if Health(was) == Down {
			return false
		}
		if h.advance(was) {
			h.doubt()
			return true
		}
	}
}

// advance advances the state from was, unless it has changed, and logs that the node is down if it is then.
func (h *healthCheck) advance(was int32) bool {
	if Health(was+1) != Down {
		return h.failures.CompareAndSwap(was, was+1)
	}
	h.turn.Lock()
	defer h.turn.Unlock()
	if !h.failures.CompareAndSwap(was, was+1) {
		return false
	}
	h.down.Note("", 0, func() []any { return []any{"why", h.reason()} })
	return true
}

// note notes why the node is not up. After another failure, a connection that was closed on this side, as Node.Record
// does it, is no reason of its own.
func (h *healthCheck) note(err error) {
	if h.state() == Up || !errors.Is(err, net.ErrClosed) {
		cause := Reason(err)
		h.cause.Store(&cause)
	}
}

// doubt counts a failure while the node was not down, and has the node probed.
func (h *healthCheck) doubt() {
	h.failed.Add(1)
	if due := h.config.Now().Add(probeMin).UnixNano(); h.due.Load() < due { // else the prober waits for longer
		h.due.Store(due)
	}
	h.check()
}

// check makes the prober probe the node soon.
func (h *healthCheck) check() {
	select {
	case h.trouble <- struct{}{}:
	default: // the prober will wake up already, or there is none
	}
}

// plan records that the next probe is due after wait.
func (h *healthCheck) plan(wait time.Duration) {
	h.due.Store(h.config.Now().Add(wait).UnixNano())
}

// run probes the node after each failure or check until it answers. There is no pause before the first probe, because
// most often only a connection was lost. But a node that answers probes and fails requests goes down again as soon as
// it is up. The pause before its first probe grows each time; without it, the node would go up and down, with two log
// lines each, hundreds of times a second.
func (h *healthCheck) run(ctx context.Context) {
	var first time.Duration // the pause before the first probe
	examination := time.NewTicker(factsEvery)
	defer examination.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.trouble:
		case <-examination.C:
			if h.state() == Up {
				Guard(h.config.Logger, "examination of "+h.name, func() { h.examine(ctx, h.up) })
			}
			continue
		}
		if h.config.Now().Sub(h.lastUp) < steadyAfter {
			first = longer(first)
		} else {
			first = 0
		}
		for wait := first; ; wait = longer(wait) {
			h.plan(wait)
			if !pause(ctx, wait, nil) {
				return
			}
			err := h.probe(ctx)
			if !Failed(err) {
				Guard(h.config.Logger, "recovery of "+h.name, func() {
					h.probed()
					h.examine(ctx, h.up)
				})
				break
			}
			if ctx.Err() == nil {
				h.record(err)
				h.remind()
			}
		}
	}
}

// longer returns the pause after a pause of wait.
func longer(wait time.Duration) time.Duration { return min(max(2*wait, probeMin), probeMax) }

// remind logs once a minute that the node is still down.
func (h *healthCheck) remind() {
	if h.down.Open.Load() {
		Guard(h.config.Logger, "report on "+h.name, func() {
			h.down.Note("", 0, func() []any { return append([]any{"why", h.reason()}, h.report()...) })
		})
	}
}

// probed records that the node has answered a probe.
func (h *healthCheck) probed() {
	h.turn.Lock()
	was := Health(h.failures.Swap(int32(Up)))
	if was == Down {
		h.lastUp = h.config.Now()
	}
	h.turn.Unlock()
	if was != Up {
		h.recovered(was)
	}
}

// up logs that the node is up again, unless it is down once more, or this is logged already.
func (h *healthCheck) up(about ...any) {
	h.turn.Lock()
	defer h.turn.Unlock()
	if h.state() != Down && h.down.Open.Load() {
		h.down.End(append(h.report(), about...)...)
	}
}
