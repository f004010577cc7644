package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// script makes a world without latency whose asks are made one by one.
func script(parts int) (*world, *proxy) {
	w := newWorld(rand.New(rand.NewPCG(3, 4)), parts, Rules{Lease: 1000, Grace: 20}, sound())
	w.latency, w.timeout = func() int64 { return 1 }, 1e6
	return w, newProxy(w, false)
}

// one makes an ask and returns how many of it were admitted.
func (p *proxy) one(t *testing.T, pairs []Pair, cost, n int64, part int) int64 {
	t.Helper()
	before := p.admitted
	p.ask(Ask{Pairs: pairs, Strict: true, Cost: cost, N: n}, 0, part)
	p.w.settle(t)
	return p.admitted - before
}

// settle runs all that is under way, but not the deadlines of calls.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for until := w.now + 1000; len(w.queue) > 0 && w.queue[0].at < until; {
		w.run(w.steps + 1)
	}
	require.Empty(t, w.broken)
}

func slide(limit, window int64) []Pair { return []Pair{{State{Window: window}, limit}} }

// One by one, exactly the limit is admitted, whatever the number of parts divides.
func TestSplitExactOneByOne(t *testing.T) {
	for _, parts := range []int{1, 2, 3, 4, 7} {
		for _, limit := range []int64{1, 2, 3, 5, 10, 97, 1000} {
			w, p := script(parts)
			admitted := int64(0)
			for i := range limit + 20 {
				admitted += p.one(t, slide(limit, 100_000), 1, 1, int(i)%parts)
			}
			require.Equal(t, limit, admitted, "%d parts", parts)
			w.now += 200_000_000
			require.Equal(t, limit, p.one(t, slide(limit, 100_000), 1, limit+5, parts-1), "a window later, all at once")
		}
	}
}

// A cost of nine tenths of the limit fits once, whatever parts hold.
func TestSplitLargeCost(t *testing.T) {
	for _, parts := range []int{2, 4, 7} {
		_, p := script(parts)
		pairs := slide(100, 100_000)
		for i := range 10 {
			require.Equal(t, int64(1), p.one(t, pairs, 1, 1, i%parts))
		}
		require.Equal(t, int64(1), p.one(t, pairs, 90, 1, 1))
		require.Zero(t, p.one(t, pairs, 1, 1, 1))
	}
}

// A changed limit holds in the call that brings it, up and down, and what was lent
// under the old one admits nothing more for it.
func TestSplitChangedLimit(t *testing.T) {
	for _, parts := range []int{1, 2, 4} {
		_, p := script(parts)
		low, high := slide(10, 100_000), slide(50, 100_000)
		for i := range 6 {
			require.Equal(t, int64(1), p.one(t, low, 1, 1, i%parts))
		}
		require.Equal(t, int64(20), p.one(t, high, 1, 20, 1%parts)) // 26 in use
		require.Zero(t, p.one(t, low, 1, 1, 1%parts))
		require.Equal(t, int64(24), p.one(t, high, 1, 30, parts-1))
		require.Equal(t, int64(1), p.one(t, slide(51, 100_000), 1, 3, 0))
	}
}

// Several windows are one question: the tighter one decides, and neither is charged
// when one denies.
func TestSplitSeveralWindows(t *testing.T) {
	w, p := script(4)
	pairs := []Pair{{State{Window: 1000}, 8}, {State{Window: 100_000}, 20}}
	admitted := int64(0)
	for i := range 60 {
		if i%20 == 0 {
			w.now += 2_000_000
		}
		admitted += p.one(t, pairs, 1, 1, i%4)
	}
	require.Equal(t, int64(8+8+4), admitted)
}

// What an away part holds counts as used until its lease and a window have passed;
// the others go on.
func TestSplitPartAway(t *testing.T) {
	w, p := script(4)
	pairs := slide(100, 5000)
	for i := range 8 {
		require.Equal(t, int64(1), p.one(t, pairs, 1, 1, i%4))
	}
	held := w.nodes[2].part.Held[0]
	require.Greater(t, held, int64(10))
	w.nodes[2].up = false
	admitted := int64(8)
	for i := range 200 {
		admitted += p.one(t, pairs, 1, 1, i%4)
	}
	used := w.nodes[2].used(pairs[0].State, true)
	require.Equal(t, 100-held+used, admitted)
	w.now += 6_001_000
	require.Equal(t, int64(100), p.one(t, pairs, 1, 200, 0))
}

func TestSplitReset(t *testing.T) {
	w, p := script(4)
	pairs := slide(100, 100_000)
	for i := range 12 {
		p.one(t, pairs, 5, 1, i%4)
	}
	p.reset()
	w.settle(t)
	require.Equal(t, int64(100), p.one(t, pairs, 1, 200, 0))
	require.Zero(t, w.nodes[1].used(pairs[0].State, true))
}

// A home that no longer splits lends nothing, and is alone when the leases are over.
func TestSplitCools(t *testing.T) {
	w, p := script(4)
	pairs := slide(100, 1000)
	for i := range 12 {
		p.one(t, pairs, 1, 1, i%4)
	}
	require.NotEmpty(t, w.nodes[0].home.Lent)
	w.nodes[0].home.Parts = 1
	for i := range 40 {
		w.now += 100_000
		p.one(t, pairs, 1, 1, i%4)
	}
	require.Empty(t, w.nodes[0].home.Lent)
}

// Counters of one length are one state, counted in full or by weight. What a part
// holds by weight may be twice as much in full.
func TestSplitCountedOtherwise(t *testing.T) {
	rules := Rules{Lease: 1000, Grace: 20}
	state := State{Window: 1000, Buckets: 1}
	lent := func() *Home {
		return &Home{Parts: 2, Pairs: []Pair{{state, 100}}, Seq: 5_000_000,
			Lent: []Lent{{Part: 1, Seq: 5_000_000, Born: 7, Out: []Units{{state, 30}}}}}
	}
	ask := func(strict bool, n int64) *Ask {
		return &Ask{Pairs: []Pair{{state, 100}}, Strict: strict, Cost: 1, N: n}
	}
	own := []int64{10}

	h := lent() // the lease's own kind
	require.Equal(t, int64(60), h.Decide(rules, 5100, &Question{Ask: ask(false, 60)}, own).Granted)

	h = lent() // the other kind waits until the lease is closed
	answer := h.Decide(rules, 5100, &Question{Ask: ask(true, 1)}, own)
	require.Zero(t, answer.Granted)
	require.Equal(t, []Recall{{Part: 1, Seq: 5_000_000, Close: true, Strict: true, States: []State{state}}}, answer.Recall)
	report := Report{Part: 1, Seq: 5_000_000, Born: 7, Over: true, Strict: true, Used: []Units{{state, 35}}}
	answer = h.Decide(rules, 5101, &Question{Ask: ask(true, 56), Reports: []Report{report}}, own)
	require.Equal(t, Answer{Granted: 55}, answer, "what is counted in full may be more than was held")

	h = lent() // a report on another state says nothing of how this one is counted
	report.Used = []Units{{State{Window: 9, Buckets: 1}, 0}}
	h.Decide(rules, 5101, &Question{Ask: ask(true, 1), Reports: []Report{report}}, own)
	require.Equal(t, []Lent{{Part: 1, Seq: 5_000_000, Born: 7, Over: true, Out: []Units{{state, 30}}}}, h.Lent)

	h = lent() // a lease that has ended counts twice until it is read
	require.Equal(t, int64(30), h.Decide(rules, 6500, &Question{Ask: ask(true, 31)}, own).Granted)
}

func TestStateLife(t *testing.T) {
	for _, c := range []struct{ window, buckets, life int64 }{{1000, 0, 1000}, {1000, 1, 2000}, {1000, 3, 1334}, {10, 10, 11}} {
		t.Run(fmt.Sprint(c.window, "/", c.buckets), func(t *testing.T) {
			require.Equal(t, c.life, State{Window: c.window, Buckets: c.buckets}.Life())
		})
	}
}
