package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// health is what is known of a node: up; suspect after one failure, when it is still
// asked; down after two in a row, when requests get their policy at once. A probe
// looks for its return from the first failure on, and is the only way up from down.
type health struct {
	node  *node
	state atomic.Int32 // of failures in a row, at most downAfter
	probe atomic.Int64 // when the next probe is due, ns since the epoch
	since atomic.Int64 // when it went down, by the engine's own clock
	cause atomic.Pointer[string]

	trouble chan struct{} // wakes the prober
	stop    context.CancelFunc
	prober  sync.WaitGroup
}

const (
	downAfter = 2
	probeMin  = 50 * time.Millisecond // between probes, at first
	probeMax  = time.Second           // and at last
)

func (h *health) open(n *node) {
	h.node = n
	h.trouble = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.prober.Add(1)
	go h.run(ctx) // until close
}

func (h *health) close() {
	h.stop()
	h.prober.Wait()
}

func (h *health) down() bool { return h.state.Load() >= downAfter }

// reason says why the node is down.
func (h *health) reason() string {
	if cause := h.cause.Load(); cause != nil {
		return *cause
	}
	return "node is down"
}

// untilProbe is the ms until the next probe, at least 1.
func (h *health) untilProbe() int64 {
	due := time.Unix(0, h.probe.Load()).Sub(h.node.engine.now())
	if due <= 0 && !h.down() {
		due = probeMin // no probe is planned: the next failure plans one
	}
	return max((due + time.Millisecond - 1).Milliseconds(), 1)
}

// note takes in how a round trip went: nil if the node answered, with whatever.
func (h *health) note(err error) {
	if err == nil {
		if h.state.Load() == 1 && h.state.CompareAndSwap(1, 0) {
			h.well()
		}
		return
	}
	n, cause := h.node, why(err)
	h.cause.Store(&cause)
	if hasCode(err, strayed) {
		n.links.dropAll()
	}
	for {
		was := h.state.Load()
		if was >= downAfter {
			return
		}
		if h.state.CompareAndSwap(was, was+1) {
			n.stats.failures.Add(1)
			if was+1 == downAfter {
				h.since.Store(int64(n.engine.elapsed()))
				n.engine.config.Logger.Warn("node is down", "node", n.name, "why", cause)
			}
			break
		}
	}
	n.engine.finder.wake()
	h.plan(probeMin)
	select {
	case h.trouble <- struct{}{}:
	default:
	}
}

func (h *health) plan(wait time.Duration) {
	h.probe.Store(h.node.engine.now().Add(wait).UnixNano())
}

// run probes while there is trouble.
func (h *health) run(ctx context.Context) {
	defer h.prober.Done()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.trouble:
		}
		// At once at first: a lost connection is most often all there is to it.
		for wait := time.Duration(0); ; wait = min(max(2*wait, probeMin), probeMax) {
			h.plan(wait)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			err := h.ask(ctx)
			if !failed(err) {
				h.recovered()
				break
			}
			if ctx.Err() == nil {
				h.note(err)
			}
		}
	}
}

// recovered takes a node in that answered a probe.
func (h *health) recovered() {
	n := h.node
	switch was := h.state.Swap(0); {
	case was >= downAfter:
		n.engine.settle.wake()
		after := n.engine.elapsed() - time.Duration(h.since.Load())
		n.engine.config.Logger.Warn("node is up", append([]any{"node", n.name, "after", after.Round(time.Millisecond)}, n.report.take()...)...)
	case was > 0:
		h.well()
	}
}

// well is what follows when a node that was only suspect answers.
func (h *health) well() {
	h.node.report.say(h.node, h.reason())
	h.node.engine.settle.wake()
}

// probe is a script that decides nothing, and is refused whenever those that decide
// are: by a node that is loading, or at work on another script, or a replica.
const probe = "#!lua\nreturn 1"

// ask sends a probe. Its key may lie on another node of a cluster: saying so is a
// sign of life as well.
func (h *health) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.node.engine.config.Timeout)
	defer cancel()
	return h.node.client.Process(ctx, redis.NewCmd(ctx, "eval", probe, 1, "rl:{}"))
}

// nodeStats counts for INFO.
type nodeStats struct {
	batches  atomic.Int64                  // round trips
	failures atomic.Int64                  // round trips that failed while the node was not down
	policies [PolicyError + 1]atomic.Int64 // answers by policy
}

func (s *nodeStats) line(n *node) string {
	state := "up"
	switch failures := n.health.state.Load(); {
	case failures >= downAfter:
		state = "down"
	case failures > 0:
		state = "suspect"
	}
	return fmt.Sprintf("name=%s,state=%s,batches=%d,failures=%d,closed=%d,open=%d,local=%d,error=%d",
		n.name, state, s.batches.Load(), s.failures.Load(), s.policies[PolicyClosed].Load(),
		s.policies[PolicyOpen].Load(), s.policies[PolicyLocal].Load(), s.policies[PolicyError].Load())
}
