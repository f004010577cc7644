package web

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

const (
	step       = time.Second // time between two points
	maxHistory = 300         // points that are kept
	// maxSilence is how long a round of the sampler may take before /healthz reports that the
	// process hangs. Rounds are a second apart.
	maxSilence = 10 * time.Second
	// checkEvery is the number of rounds between two checks of the nodes. Without checks, nodes
	// that get no requests would seem to be up forever.
	checkEvery = 5
)

// point has the figures of one second. Except for Shadow, decisions with SHADOW are not counted.
type point struct {
	Time      int64   `json:"t"`         // end of the second, in Unix ms
	Decisions float64 `json:"decisions"` // decisions per second
	Denied    float64 `json:"denied"`    // those of Decisions that a limit denied, also by FAIL LOCAL
	Refused   float64 `json:"refused"`   // those of Decisions that FAIL CLOSED denied or FAIL ERROR answered
	Drawn     float64 `json:"drawn"`     // those of Decisions that came from advances
	Fail      float64 `json:"fail"`      // those of Decisions that any FAIL policy answered
	Through   float64 `json:"through"`   // those of Fail that were admitted
	Shadow    float64 `json:"shadow"`    // requests per second that SHADOW would have denied
	P50       *int64  `json:"p50_us"`    // median duration of decisions; nil without decisions
	P99       *int64  `json:"p99_us"`    // 99th percentile of the duration of decisions; nil without decisions
}

// totals has the figures since the start.
type totals struct {
	at        time.Time           // when the figures were read
	decisions int64               // decisions without SHADOW
	denied    int64               // denials by a limit without SHADOW, also by FAIL LOCAL
	refused   int64               // answers by FAIL CLOSED and FAIL ERROR without SHADOW
	drawn     int64               // decisions from advances without SHADOW
	fail      int64               // answers by FAIL policies without SHADOW
	through   int64               // admissions by FAIL policies without SHADOW
	shadow    int64               // requests that SHADOW would have denied
	durations *histogram.Snapshot // durations of decisions
}

func count(o *observe.Observer, now time.Time) *totals {
	t := &totals{at: now, durations: &histogram.Snapshot{}}
	for _, by := range observe.Commands {
		t.durations.Merge(o.Durations(by).Snapshot())
	}
	for _, counts := range o.Counts() {
		for _, by := range observe.Commands {
			t.add(counts, by)
		}
	}
	return t
}

// add adds the decisions of a command.
func (t *totals) add(counts *observe.Counts, by observe.Command) {
	of := func(outcomes ...observe.Outcome) (n int64) {
		for _, o := range outcomes {
			n += counts.Of(by, o)
		}
		return n
	}
	denied := of(observe.Denied, observe.Remembered, observe.DeniedOther)
	refused := of(observe.FailClosed, observe.FailError)
	through, locally := of(observe.FailOpen, observe.FailLocal), of(observe.DeniedLocally)
	t.decisions += denied + locally + refused + through + of(observe.Allowed, observe.Repeated, observe.Drawn)
	t.denied += denied + locally
	t.refused += refused
	t.fail += locally + refused + through
	t.through += through
	t.drawn += of(observe.Drawn)
	t.shadow += of(observe.ShadowDenied)
}

// since returns the figures of the time between earlier and t.
func (t *totals) since(earlier *totals) point {
	seconds := max(t.at.Sub(earlier.at).Seconds(), 0.001)
	rate := func(now, then int64) float64 { return float64(now-then) / seconds }
	p := point{
		Time:      t.at.UnixMilli(),
		Decisions: rate(t.decisions, earlier.decisions),
		Denied:    rate(t.denied, earlier.denied),
		Refused:   rate(t.refused, earlier.refused),
		Drawn:     rate(t.drawn, earlier.drawn),
		Fail:      rate(t.fail, earlier.fail),
		Through:   rate(t.through, earlier.through),
		Shadow:    rate(t.shadow, earlier.shadow),
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
	points []point // oldest first; guarded by mu; the elements are never modified
}

// add adds the newest point. It drops later ones, which are there if the clock was set back.
func (h *history) add(p point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n, _ := slices.BinarySearchFunc(h.points, p.Time,
		func(q point, t int64) int { return cmp.Compare(q.Time, t) }); n < len(h.points) {
		h.points = slices.Clone(h.points[:n])
	}
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

// sample takes a point every second and sends it to all watchers, until the server ends. There is
// only one such goroutine, however many watchers there are.
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

// guarded runs one round of the sampler. A panic ends only that round.
func (s *Server) guarded(round func()) {
	defer func() {
		if p := recover(); p != nil {
			s.panics.Add(1)
			s.log.Error("panic while taking a sample", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	round()
}

// round checks that the other parts of the process respond, takes a point and publishes it. It returns the new totals.
func (s *Server) round(last *totals, round int64) *totals {
	s.cfg.Alive()
	key := strconv.AppendInt(nil, round, 10) // different keys take different locks of the engine
	if node, _ := s.cfg.Engine.Where(key); node == "embedded" {
		s.ask(engine.OpInspect, key) // this stores nothing; nodes are not asked, because they may be away
	}
	if round%checkEvery == 0 {
		s.cfg.CheckNodes()
	}
	s.beat.Store(int64(time.Since(s.started)))
	now := count(s.cfg.Observer, time.Now())
	p := now.since(last)
	s.history.add(p)
	if round%trailEvery == 0 {
		s.trails.add(p.Time, s.cfg.Observer.HotKeys(momentsKeys))
	}
	s.publish(p)
	return now
}

// hangs reports whether a round of the sampler has taken longer than maxSilence.
func (s *Server) hangs() bool {
	return time.Since(s.started)-time.Duration(s.beat.Load()) > s.maxSilence
}

// ask sends the engine two requests, one about a key and one about its shadow.
func (s *Server) ask(op engine.Op, key []byte) (answers [2]engine.Result) {
	var p engine.Pipeline
	p.AddBoth(op, key)
	s.cfg.Engine.Do(&p)
	return [2]engine.Result(p.Results)
}
