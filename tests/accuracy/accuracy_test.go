// Package accuracy measures what limiters admit and deny, beside what an exact log would: the
// commands of rlproxy, scripts that applications usually paste, and other limiters. TestAccuracy
// runs with every go test in a small form that holds RL.SLIDE and STRICT to what they promise;
// make accuracy runs it in full and writes docs/accuracy.md.
//
// Reading order: accuracy_test.go (this file), row_test.go (what is measured), world_test.go (on which
// clock), history_test.go (what is counted), attack_test.go (bursts, and the search for worse ones),
// wait_test.go (retry_after and the way back to all room), traffic_test.go (a day of requests),
// change_test.go (changed limits), fault_test.go (many connections, lost replies, failovers), peer_test.go (other limiters),
// page_test.go and page.md.
package accuracy

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

var (
	docs = flag.String("docs", "", "measure in full and write accuracy.md in this folder")
	seed = flag.Uint64("seed", 20260101, "the seed of the search and of the traffic")
)

func TestMain(m *testing.M) { os.Exit(proxytest.Main(m, "../../cmd/rlproxy")) }

// effort is how long to search.
type effort struct {
	rounds   int   // of the search
	waits    int   // denials whose retry_after is tried
	requests int   // of the day of requests
	phases   int   // of a window, at which a full burst is tried
	limit    int64 // of the requests
}

var (
	short = effort{rounds: 2, waits: 20, requests: 500, phases: 2, limit: 20}
	full  = effort{rounds: 12, waits: 200, requests: 20_000, phases: 5, limit: 50}
)

// figures are the results of one row.
type figures struct {
	edge, greedy, patient float64 // the most in a trailing window over the limit
	closed                float64 // the same as patient, if both ends of a window count
	back                  float64 // windows from a full burst until all of the limit is free again, at most
	waits                 waits
	day                   day
	faults                faults
	seen                  seen
}

// seen is what a client of a limiter finds by a real clock. Shares are of the limit.
type seen struct {
	Edge, Greedy, Patient float64 // the most in a trailing window
	Waits                 waits
	Minutes               day
	Changes               changes
}

// live finds it.
func (w *world) live(t testing.TB) seen {
	t.Helper()
	s := seen{
		Greedy: w.worst(t, w.greedy()), Patient: w.patient(t, rng(1), 2),
		Waits:   w.waits(t, rng(2), 16),
		Minutes: w.minutes(t, rng(3), 200_000),
		Changes: w.changes(t),
	}
	for range edgeTries {
		s.Edge = max(s.Edge, w.worst(t, w.edges()))
	}
	s.Patient = max(s.Patient, s.Edge, s.Greedy)
	return s
}

func rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, stream)) }

// measure finds what the clock of a world can decide.
func (w *world) measure(t testing.TB, e effort) (f figures) {
	t.Helper()
	f.edge = w.worst(t, w.edges())
	f.greedy = w.worst(t, w.greedy())
	f.patient = max(w.patient(t, rng(1), e.rounds), f.edge, f.greedy)
	f.closed = w.closed
	f.back = w.back(t, e.phases)
	f.waits = w.waits(t, rng(2), e.waits)
	f.day = w.day(t, rng(3), e.requests)
	return f
}

// TestAccuracy measures rlproxy's commands on both engines, which must agree in every figure, and
// requires what the documentation promises.
func TestAccuracy(t *testing.T) {
	e := short
	if *docs != "" {
		e = full
	}
	t.Logf("seed %d", *seed)
	p, began := page{Seed: *seed, effort: e}, time.Now()
	for _, r := range rows() {
		p.Rows = append(p.Rows, line{r, new(figures)})
	}
	t.Run("set clocks", func(t *testing.T) {
		for _, l := range p.Rows {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				*l.figures = l.onSetClock(t, "", e.limit).measure(t, e)
				t.Logf("%+v", *l.figures)
				if l.command {
					require.Equal(t, *l.figures, l.onSetClock(t, embedded, e.limit).measure(t, e), "the embedded engine")
				}
				l.check(t, l.figures)
			})
		}
	})
	if *docs == "" || t.Failed() {
		return
	}
	t.Run("faults", func(t *testing.T) {
		for _, l := range p.Rows {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				l.faults = trouble(t, func(args ...string) *stand { return l.stand(t, args...) })
				if l.command {
					l.faults.Confirmed = l.stand(t, append(noAdvance, "--wait-replicas", "1", "50")...).failover(refusing)
					require.LessOrEqual(t, l.faults.Confirmed, 1.0, "admitted in all although replicas confirm each decision")
				}
				if l.ids {
					l.faults.Once = l.once(l.stand(t))
				}
				t.Logf("%+v", l.faults)
			})
		}
		t.Run("embedded", func(t *testing.T) {
			t.Parallel()
			slide := rows()[0]
			p.Embedded = trouble(t, func(...string) *stand { return slide.embedded(t) })
			p.Embedded.Once = slide.once(slide.embedded(t))
			t.Logf("%+v", p.Embedded)
		})
	})
	t.Run("real clocks", func(t *testing.T) {
		for _, l := range p.Rows {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				l.seen = l.onRealClock(t).live(t)
				t.Logf("%+v", l.seen)
				if l.exact || l.strict {
					require.LessOrEqual(t, max(l.seen.Patient, l.seen.Minutes.Worst, l.seen.Changes.Raised.Worst, l.seen.Changes.Lowered.Worst), 1.0)
				}
				if l.exact {
					require.Zero(t, l.seen.Minutes.False)
				}
			})
		}
	})
	p.Others = others(t)
	if !t.Failed() {
		p.Minutes, p.Redis = int(math.Ceil(time.Since(began).Minutes())), version(t)
		p.write(t, *docs)
	}
}

// check requires that a row's figures are as promised.
func (r *row) check(t testing.TB, f *figures) {
	t.Helper()
	if r.exact || r.strict {
		require.Equal(t, [...]float64{1, 1, 1, 1, 1}, [...]float64{f.edge, f.greedy, f.patient, f.closed, f.day.Worst}, "the most in a trailing window over the limit")
	}
	if r.exact {
		require.Zero(t, f.day.False, "requests that an exact log would have admitted")
		require.Equal(t, 1.0, f.back, "windows until all is free again")
	}
	if r.strict {
		require.Zero(t, f.day.FalseWider, "requests that an exact log of one more sub-window would have admitted")
		require.LessOrEqual(t, f.back, 1+1/float64(r.buckets))
	}
	if r.timely {
		require.Equal(t, waits{Tried: f.waits.Tried, Exact: f.waits.Tried}, f.waits, "retry_after")
		require.Positive(t, f.waits.Tried)
	}
	if r.most > 0 {
		require.Greater(t, f.patient, r.most, "the search must find what this row is known to admit")
	}
}
