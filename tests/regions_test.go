package tests

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/stretchr/testify/require"
)

// region is a proxy, and its way to the node. The node is in the first region.
type region struct {
	name  string
	proxy *proxy
	net   *faultnet.Proxy

	mu      sync.Mutex
	answers []answer // guarded by mu
	failure error    // the first one; guarded by mu
}

// trip is how long a message takes from one region to another and back.
const trip = 80 * time.Millisecond

// startRegions starts a node and a proxy in each of three regions.
func startRegions(t *testing.T) (all []*region) {
	t.Helper()
	n := startNode(t)
	for i, name := range []string{"beside the node", "far", "farther"} {
		net := faultnet.Start(t, n.Addr)
		if i > 0 {
			net.Set(faultnet.Faults{Distance: trip / 2})
		}
		p := startProxy(t, "--backend", "redis://"+net.Addr, "--backend-timeout", "1000", "--advance", "yes")
		all = append(all, &region{name: name, proxy: p, net: net})
	}
	return all
}

// ask has some clients of the region ask again and again until the context ends. Each waits for its answer, and then
// for a pause.
func (r *region) ask(ctx context.Context, done *sync.WaitGroup, clients int, pause time.Duration, command string) {
	for range clients {
		done.Go(func() {
			err := r.askAlone(ctx, pause, command)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.failure == nil {
				r.failure = err
			}
		})
	}
}

func (r *region) askAlone(ctx context.Context, pause time.Duration, command string) error {
	c, err := connect(r.proxy.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all replies are read
	for next := time.Now(); ctx.Err() == nil; next = next.Add(pause) {
		time.Sleep(time.Until(next)) // this paces the demand
		a := answer{sent: time.Now(), cost: 1}
		replies, err := c.Exchange(words(command))
		if err != nil {
			return err
		}
		if a.decision, err = toDecision(replies[0]); err != nil {
			return err
		}
		a.read = time.Now()
		if late := a.read.Add(-pause); late.After(next) {
			next = late
		}
		r.mu.Lock()
		r.answers = append(r.answers, a)
		r.mu.Unlock()
	}
	return nil
}

// regionSaid is what a region answered in some time.
type regionSaid struct {
	admitted, denied, byFail int
	p50, p99                 time.Duration
}

// said returns what the region answered to requests that were sent in a time, and logs it.
func (r *region) said(t *testing.T, what string, from, to time.Time) (s regionSaid) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var took []time.Duration
	for _, a := range r.answers {
		switch {
		case a.sent.Before(from) || a.sent.After(to):
			continue
		case a.unknown():
			s.byFail++
		case a.allowed == 1:
			s.admitted++
		default:
			s.denied++
		}
		took = append(took, a.read.Sub(a.sent))
	}
	require.NoError(t, r.failure)
	require.NotEmpty(t, took, "%s, %s", what, r.name)
	slices.Sort(took)
	s.p50, s.p99 = took[len(took)/2], took[len(took)*99/100]
	t.Logf("%-22s %-16s p50 %-12v p99 %-12v %6d admitted %6d denied %5d by FAIL", what, r.name, s.p50, s.p99, s.admitted, s.denied, s.byFail)
	return s
}

// asked sends requests to all regions while something happens.
func asked(t *testing.T, regions []*region, clients int, pause time.Duration, command string, meanwhile func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for _, r := range regions {
		r.answers = nil
		r.ask(ctx, &done, clients, pause, command)
	}
	meanwhile()
	end()
	done.Wait()
}

// judged returns the answers of all regions. No window admitted more than the limit.
func judged(t *testing.T, regions []*region, limit int64, window time.Duration) *history {
	t.Helper()
	h := &history{limit: limit, window: window}
	for _, r := range regions {
		h.answers = append(h.answers, r.answers...)
	}
	require.NoError(t, h.checkLimit())
	return h
}

// While there is room, no region waits for the node, however far away it is.
func TestRegionsDecideInMemoryWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	all := startRegions(t)
	var began time.Time
	asked(t, all, 1, time.Millisecond, "RL.SLIDE k 1000000 1m", func() {
		for _, r := range all {
			c := dial(t, r.proxy.addr)
			eventually(t, "many decisions from memory", func() bool { return c.info(t, "advance_decisions") > 300 })
		}
		began = time.Now()
		time.Sleep(phase) // of which all is measured
	})
	for _, r := range all {
		require.Less(t, r.said(t, "with room", began, time.Now()).p50, trip/4)
	}
	judged(t, all, 1_000_000, time.Minute)
}

// A limit of all regions together is not exceeded, and all of it is admitted. A region that is cut off admits what it
// has, and then its FAIL policy answers, as for any node that is away. The others go on. When the region is back, its
// requests are decided as before.
func TestRegionsHoldOneLimit(t *testing.T) {
	t.Parallel()
	all := startRegions(t)
	const limit, window = 3000, 6 * time.Second
	var began, cut, back time.Time
	asked(t, all, 4, 10*time.Millisecond, "RL.SLIDE k 3000 6s", func() {
		began = time.Now()
		time.Sleep(window)
		all[1].net.Set(faultnet.Faults{SwallowRequests: true, SwallowReplies: true})
		cut = time.Now()
		time.Sleep(window)
		all[1].net.Set(faultnet.Faults{Distance: trip / 2})
		back = time.Now()
		time.Sleep(window)
	})
	h := judged(t, all, limit, window)
	first := 0
	for _, a := range h.admitted() {
		if a.sent.Before(began.Add(window)) {
			first++
		}
	}
	t.Logf("%d of %d admitted in the first window", first, limit)
	require.Greater(t, first, limit*9/10)
	for _, r := range all {
		r.said(t, "up to the limit", began, cut)
		r.said(t, "region 2 is cut off", cut, back)
		late := r.said(t, "it is back", back.Add(2*time.Second), time.Now())
		require.Positive(t, late.admitted)
		if r != all[1] {
			whole := r.said(t, "in all", began, time.Now())
			require.Less(t, whole.byFail, whole.admitted/20, "new connections are slow on a busy machine")
		}
	}
}
