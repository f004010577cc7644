package tests

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// splitTenants are keys split by SHARDS or by a hot-key line, with all that could go
// wrong: limits that nothing divides, limits below the number of parts, costs that need
// nearly all of the limit, limits that change from call to call.
var splitTenants = []struct {
	tenant
	check func(h *history) error // what is promised of each of its windows
	share float64                // of the limit, admitted at least when twice that is asked for
	exact bool                   // no denial while there is room
}{
	{tenant{key: "slide", command: "RL.SLIDE", pairs: []pair{{603, time.Second}}, cost: 1, options: shards(4)},
		(*history).checkLimit, 0.7, true},
	{tenant{key: "hot:slide", command: "RL.SLIDE", pairs: []pair{{301, 700 * time.Millisecond}}, cost: 1},
		(*history).checkLimit, 0.7, true},
	{tenant{key: "costs", command: "RL.SLIDE", pairs: []pair{{300, time.Second}}, maxCost: 5, options: shards(4)},
		(*history).checkLimit, 0.7, true},
	{tenant{key: "few", command: "RL.SLIDE", pairs: []pair{{3, 300 * time.Millisecond}}, cost: 1, options: shards(4)},
		(*history).checkLimit, 0.5, true},
	{tenant{key: "large", command: "RL.SLIDE", pairs: []pair{{1000, 500 * time.Millisecond}}, cost: 900, options: shards(4)},
		(*history).checkLimit, 0.3, true},
	{tenant{key: "changing", command: "RL.SLIDE", pairs: []pair{{200, time.Second}}, lower: 101, cost: 1, options: shards(3)},
		(*history).checkOwnLimits, 0.4, false},
	{tenant{key: "two", command: "RL.SLIDE", pairs: []pair{{61, 200 * time.Millisecond}, {150, time.Second}}, cost: 1, options: shards(4)},
		(*history).checkLimit, 0.7, false},
	{tenant{key: "hot:strict", command: "RL.COUNTER", pairs: []pair{{211, time.Second}}, cost: 1, options: []any{"BUCKETS", 10, "STRICT"}},
		(*history).checkLimit, 0.6, false},
	{tenant{key: "weighed", command: "RL.COUNTER", pairs: []pair{{199, time.Second}}, cost: 1, options: shards(4)},
		func(h *history) error { return h.checkWeighed(4) }, 0.7, false},
	{tenant{key: "fixed", command: "RL.FIXED", pairs: []pair{{111, time.Second}}, cost: 1, options: shards(4)},
		(*history).checkFixed, 0.7, false},
}

func shards(n int) []any { return []any{"SHARDS", n} }

// scriptCalls is how often nodes were asked, by INFO commandstats.
func scriptCalls(t *testing.T, nodes []*node) (calls int64) {
	t.Helper()
	for _, n := range nodes {
		text, err := n.Info(context.Background(), "commandstats").Result()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(text, "cmdstat_evalsha:calls=")
		digits, _, found := strings.Cut(rest, ",")
		if !found {
			continue // nobody has asked it yet
		}
		count, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(t, err)
		calls += count
	}
	return calls
}

// TestSplitSum asks for less than limits and for more, from three proxies of which one
// after the other is killed and started again, and holds from what clients saw: never
// more than the limit, in no window, and no denial while there was room. SOAK_REQUESTS
// says how many requests that takes, in place of 60,000.
func TestSplitSum(t *testing.T) {
	count := int64(60_000)
	if s := os.Getenv("SOAK_REQUESTS"); s != "" {
		var err error
		count, err = strconv.ParseInt(s, 10, 64)
		require.NoError(t, err, "SOAK_REQUESTS")
	}
	nodes := startNodes(t, 4)
	f := startFleet(t, append(backends(nodes...), "--hot-key", "hot:*", "4"))
	d := &demand{fleet: f, clients: 4, phases: []float64{0.5, 1, 3}, count: count}
	for _, c := range splitTenants {
		d.tenants = append(d.tenants, c.tenant)
	}
	calls, requests := make(map[float64]int64), make(map[float64]int64) // by demand
	kills, number := 0, 0
	asked, sent := scriptCalls(t, nodes), int64(0)
	note := func() {
		factor := d.factor(number)
		was, before := asked, sent
		asked, sent = scriptCalls(t, nodes), d.sent.Load()
		calls[factor] += asked - was
		requests[factor] += sent - before
	}
	done, kill := d.start(), time.NewTicker(4*time.Second)
	defer kill.Stop()
	for ended := false; !ended; {
		next := time.NewTimer(time.Until(d.began.Add(time.Duration(number+1) * phase)))
		select {
		case <-done:
			ended = true
			note()
		case <-next.C:
			note()
			number++
		case <-kill.C:
			f.restart(t, kills%len(f.proxies))
			kills++
		}
		next.Stop()
	}
	require.NoError(t, d.failure)
	t.Logf("%d requests in %v, %d proxies killed", d.sent.Load(), time.Since(d.began).Round(time.Second), kills)
	for _, factor := range d.phases {
		if requests[factor] > 0 {
			t.Logf("demand %.1f times the limits: %d requests, %.2f calls a request", factor, requests[factor],
				float64(calls[factor])/float64(requests[factor]))
		}
	}
	measured := 0
	for i, c := range splitTenants {
		histories := make([]history, len(c.pairs))
		for j, p := range c.pairs {
			histories[j] = history{limit: p.limit, window: p.window, answers: d.answers[i]}
			require.NoError(t, c.check(&histories[j]), c.key)
			if c.exact {
				require.NoError(t, histories[j].checkDenials(), c.key)
			}
		}
		h := slices.MinFunc(histories, func(a, b history) int { return cmp.Compare(a.rate(), b.rate()) })
		admitted, most := d.used(&h)
		share := float64(admitted) / float64(max(most, 1))
		t.Logf("%-10s %6d admitted, %6d denied, %4d lost with a proxy, %.0f %% of the %d used that the limit allows when twice that is asked for",
			c.key, len(h.admitted()), len(h.denied()), len(h.lost()), 100*share, most)
		require.NotEmpty(t, h.denied(), c.key)
		if most > 0 { // a busy machine may not get to ask for so much
			require.GreaterOrEqual(t, share, c.share, c.key)
			measured++
		}
	}
	require.Greater(t, measured, len(splitTenants)/2)
	require.GreaterOrEqual(t, kills, 3)
	for _, n := range nodes {
		requireMortal(t, n)
	}
	f.stop(t)
}

// rate is how many units per second the limit admits.
func (h *history) rate() float64 { return float64(h.limit) / h.window.Seconds() }

// used is what was admitted and what the limit allows, in those windows, one after the
// other, in which twice as much was asked for.
func (d *demand) used(h *history) (admitted, most int64) {
	type window struct{ asked, admitted int64 }
	windows := make(map[time.Duration]*window)
	for _, a := range h.answers {
		at := a.read.Sub(d.began) / h.window
		w := windows[at]
		if w == nil {
			w = new(window)
			windows[at] = w
		}
		w.asked += a.cost
		w.admitted += a.allowed * a.cost
	}
	for _, w := range windows {
		if w.asked >= 2*h.limit {
			admitted += w.admitted
			most += h.limit
		}
	}
	return admitted, most
}
