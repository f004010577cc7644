package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// decide reports n decisions about a key to an observer.
func decide(o *observe.Observer, key string, kind limit.Kind, n int, took time.Duration, a engine.Result) {
	decideBy(o, "", key, kind, n, took, a)
}

// decideBy reports n decisions with the limits of a policy to an observer.
func decideBy(o *observe.Observer, policy, key string, kind limit.Kind, n int, took time.Duration, a engine.Result) {
	var p engine.Pipeline
	for range n {
		r := p.Add()
		r.Key, r.Kind, r.Policy = []byte(key), kind, policy
	}
	p.Grow()
	for i := range p.Results {
		p.Results[i] = a
	}
	o.Observe(&p, time.Now(), took, observe.Sender{})
}

func TestPointsHaveTheFiguresOfASecond(t *testing.T) {
	t.Parallel()
	o := observe.New(observe.Config{Engine: &fakeEngine{}})
	trial := engine.Pipeline{Requests: make([]engine.Request, 12), Results: make([]engine.Result, 12)}
	for i := range trial.Requests {
		trial.Requests[i] = engine.Request{Key: []byte("k\xffs"), Shadow: true, Spec: limit.Spec{Kind: limit.Slide}}
		trial.Results[i].Allowed = i < 4
	}
	start := time.Now()
	for _, before := range []engine.Result{{}, {Fail: engine.FailOpen}} {
		decide(o, "k", limit.Slide, 1000, time.Hour, before)
		o.Observe(&trial, start, time.Hour, observe.Sender{})
	}
	before := count(o, start)
	empty := count(o, start.Add(time.Second)).since(before)
	require.Equal(t, point{Time: start.Add(time.Second).UnixMilli()}, empty, "without decisions there is no share and no duration")

	allowed := engine.Result{Decision: limit.Decision{Allowed: true}}
	decide(o, "k", limit.Slide, 70, 100*time.Microsecond, allowed)
	decideBy(o, "api", "k", limit.Slide, 26, 100*time.Microsecond, engine.Result{})
	decide(o, "k", limit.Counter, 10, 100*time.Microsecond, engine.Result{Remembered: true})
	decide(o, "k", limit.Fixed, 4, 50*time.Millisecond, engine.Result{Fail: engine.FailOpen, Decision: allowed.Decision})
	decide(o, "k", limit.Fixed, 4, 50*time.Millisecond, engine.Result{Fail: engine.FailError, Err: engine.ErrStates})
	local := engine.Result{Fail: engine.FailLocal, Decision: allowed.Decision}
	decide(o, "k", limit.Fixed, 2, 50*time.Millisecond, local)
	decide(o, "k", limit.Fixed, 3, 50*time.Millisecond, engine.Result{Fail: engine.FailLocal})
	decide(o, "k", limit.Fixed, 6, 50*time.Millisecond, engine.Result{Err: engine.ErrStates}) // nothing was decided
	decide(o, "k", limit.Slide, 20, 100*time.Microsecond, engine.Result{Again: true, Decision: allowed.Decision})
	o.Observe(&trial, start, 100*time.Microsecond, observe.Sender{})
	p := count(o, start.Add(2*time.Second)).since(before)
	require.InDelta(t, 69.5, p.Decisions, 1e-6)
	require.InDelta(t, 6.5, p.Fail, 1e-6)
	require.InDelta(t, 3, p.Through, 1e-6)
	require.InDelta(t, 19.5, p.Denied, 1e-6, "without what SHADOW would have denied, with what FAIL LOCAL denied")
	require.InDelta(t, 2, p.Refused, 1e-6, "without what FAIL OPEN admitted and FAIL LOCAL decided")
	require.InDelta(t, 4, p.Shadow, 1e-6)
	require.InDelta(t, 100, *p.P50, 15)
	require.InDelta(t, 50_000, *p.P99, 7000)
}

func TestHistoryHasNoPointsFromTheFuture(t *testing.T) {
	t.Parallel()
	var h history
	for _, at := range []int64{1, 2, 3, 9} {
		h.add(point{Time: at})
	}
	before := h.all()
	for _, at := range []int64{3, 4} { // the clock was set back
		h.add(point{Time: at})
	}
	require.Equal(t, []point{{Time: 1}, {Time: 2}, {Time: 3}, {Time: 4}}, h.all())
	require.Equal(t, []point{{Time: 1}, {Time: 2}, {Time: 3}, {Time: 9}}, before, "what was sent does not change")
}

func TestHistoryKeepsTheNewestPoints(t *testing.T) {
	t.Parallel()
	var h history
	var early []point
	for i := range int64(3*maxHistory + 1) {
		h.add(point{Time: i})
		if i == 10 {
			early = h.all()
		}
	}
	all := h.all()
	require.Len(t, all, maxHistory)
	for i := range all {
		require.EqualValues(t, 2*maxHistory+1+i, all[i].Time)
	}
	require.Len(t, early, 11)
	require.EqualValues(t, 10, early[10].Time, "what was returned before does not change")
	require.LessOrEqual(t, cap(all), 3*maxHistory)
}

// An engine that no longer answers makes /healthz fail. A node that is away does not.
func TestHealthFailsIfTheProcessHangs(t *testing.T) {
	t.Parallel()
	healthy := func(s *site) bool {
		code, _ := s.get(t, "/healthz", "")
		return code == http.StatusOK
	}
	for node, embedded := range map[string]bool{"embedded": true, "a:1": false} {
		release, asked := make(chan struct{}), make(chan struct{}, 100)
		s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) {
			s.maxSilence = 3 * time.Second
			e := s.cfg.Engine.(*fakeEngine)
			e.node = node
			e.answers(func(*engine.Request, *engine.Result) {
				asked <- struct{}{}
				<-release
			})
		})
		if embedded {
			<-asked
			require.True(t, healthy(s), "not for long yet")
			require.Eventually(t, func() bool { return !healthy(s) }, 20*time.Second, time.Millisecond)
		} else {
			beat := s.beat.Load()
			require.Eventually(t, func() bool { return s.beat.Load() > beat }, 20*time.Second, time.Millisecond)
			require.True(t, healthy(s))
			require.Empty(t, asked, "a node was asked")
		}
		close(release)
		require.Eventually(t, func() bool { return healthy(s) }, 20*time.Second, time.Millisecond)
	}
}

func TestPanicCostsOneSample(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) {
		e, first := s.cfg.Engine.(*fakeEngine), true
		e.node = "embedded"
		e.answers(func(*engine.Request, *engine.Result) {
			if first {
				first = false
				panic("a mistake")
			}
		})
	})
	require.Eventually(t, func() bool { return len(s.history.all()) > 0 }, 20*time.Second, time.Millisecond)
	require.Contains(t, s.log.String(), `panic="a mistake"`)
}
