package web

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

const (
	step       = time.Second // from one point to the next
	maxHistory = 300         // points
	// maxSilence is how long a round of the sampler may take before /healthz reports that the
	// process hangs. Rounds are a second apart.
	maxSilence = 10 * time.Second
	// checkEvery is the number of rounds from one check of the nodes to the next. Those that
	// get no requests would otherwise seem to be up forever.
	checkEvery = 5
)

// point is what was decided in one second.
type point struct {
	Time      int64    `json:"t"`         // Unix ms
	Decisions float64  `json:"decisions"` // per second
	Denied    *float64 `json:"denied"`    // the share of the decisions, from 0 to 1; nil if there were none
	Fail      float64  `json:"fail"`      // answers by FAIL policy, per second
	Shadow    float64  `json:"shadow"`    // what SHADOW would have denied, per second; none of the above has decisions with SHADOW
	P50       *int64   `json:"p50_us"`    // the median latency of decisions; nil if there were none
	P99       *int64   `json:"p99_us"`    // likewise 99 of 100
}

// totals is what was decided since the start.
type totals struct {
	at                      time.Time
	decisions, denied, fail int64 // without SHADOW
	shadow                  int64 // what SHADOW would have denied
	durations               *histogram.Snapshot
}

// count returns the totals of an observer.
func count(o *observe.Observer, now time.Time) *totals {
	t := &totals{at: now, durations: &histogram.Snapshot{}}
	for _, by := range observe.Commands {
		t.durations.Merge(o.Durations(by).Snapshot())
		for _, counts := range o.Counts() {
			denied, fail := int64(0), int64(0)
			for _, outcome := range []observe.Outcome{observe.Denied, observe.Remembered, observe.DeniedOther} {
				denied += counts.Of(by, outcome)
			}
			for _, outcome := range []observe.Outcome{observe.FailOpen, observe.FailClosed, observe.FailLocal, observe.FailError} {
				fail += counts.Of(by, outcome)
			}
			t.decisions += denied + fail + counts.Of(by, observe.Allowed) + counts.Of(by, observe.Repeated)
			t.denied += denied
			t.fail += fail
			t.shadow += counts.Of(by, observe.ShadowDenied)
		}
	}
	return t
}

// since returns what was decided between earlier and t.
func (t *totals) since(earlier *totals) point {
	seconds := max(t.at.Sub(earlier.at).Seconds(), 0.001)
	n := t.decisions - earlier.decisions
	p := point{
		Time:      t.at.UnixMilli(),
		Decisions: float64(n) / seconds,
		Fail:      float64(t.fail-earlier.fail) / seconds,
		Shadow:    float64(t.shadow-earlier.shadow) / seconds,
	}
	if n > 0 {
		share := float64(t.denied-earlier.denied) / float64(n)
		p.Denied = &share
	}
	if took := t.durations.Since(earlier.durations); took.Count > 0 {
		p50, p99 := took.Quantile(0.5).Microseconds(), took.Quantile(0.99).Microseconds()
		p.P50, p.P99 = &p50, &p99
	}
	return p
}

// history keeps the newest points.
type history struct {
	mu     sync.Mutex
	points []point // oldest first; guarded by mu, but not the points themselves: they are never modified
}

func (h *history) add(p point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) == maxHistory {
		h.points = h.points[1:]
	}
	h.points = append(h.points, p)
}

// all returns the points, oldest first.
func (h *history) all() []point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.points
}

// sample takes a point each second and shows it to those who watch, until the server ends.
// It is the only goroutine that does so: watchers do not add to the work.
func (s *Server) sample() {
	tick := time.NewTicker(step)
	defer tick.Stop()
	last := count(s.cfg.Observer, time.Now())
	for round := int64(0); ; round++ {
		select {
		case <-s.ending.Done():
			return
		case <-tick.C:
			s.guarded(func() { last = s.round(last, round) })
		}
	}
}

// guarded runs one round of the sampler. A panic costs that round.
func (s *Server) guarded(round func()) {
	defer func() {
		if p := recover(); p != nil {
			s.panics.Add(1)
			s.log.Error("panic while taking a sample", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	round()
}

// round asks the parts of the process for a sign of life, takes a point and shows it.
func (s *Server) round(last *totals, round int64) *totals {
	s.cfg.Alive()
	key := strconv.AppendInt(nil, round, 10) // another one each time, which in time reaches every lock
	if node, _ := s.cfg.Engine.Where(key); node == "embedded" {
		s.ask(engine.OpInspect, key) // stores nothing; nodes are not asked, for they may be away
	}
	if round%checkEvery == 0 {
		s.cfg.CheckNodes()
	}
	s.beat.Store(int64(time.Since(s.started)))
	now := count(s.cfg.Observer, time.Now())
	p := now.since(last)
	s.history.add(p)
	s.publish(p)
	return now
}

// hangs reports whether the sampler's round does not end.
func (s *Server) hangs() bool {
	return time.Since(s.started)-time.Duration(s.beat.Load()) > s.maxSilence
}

// ask sends the engine one request about a key, and the same one about its shadow.
func (s *Server) ask(op engine.Op, key []byte) (answers [2]engine.Result) {
	var p engine.Pipeline
	p.AddBoth(op, key)
	s.cfg.Engine.Do(&p)
	return [2]engine.Result(p.Results)
}
