package tests

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// advanceStats returns the sums of the counters about advances in INFO of some proxies, and of times the longest.
func advanceStats(t *testing.T, f *fleet, proxies ...int) map[string]int64 {
	t.Helper()
	sums := make(map[string]int64)
	for _, i := range proxies {
		c, err := f.connect(i, f.proxy(i))
		require.NoError(t, err)
		text, ok := c.do(t, "INFO", "engine").(string)
		require.True(t, ok)
		require.NoError(t, c.Close())
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil || !strings.HasPrefix(name, "advance"):
			case strings.HasSuffix(name, "_us"):
				sums[name] = max(sums[name], n)
			default:
				sums[name] += n
			}
		}
	}
	return sums
}

// histories returns the answers about a tenant by window. late is how much longer a unit may count.
func (d *demand) histories(i int, late time.Duration) (all []history) {
	for _, p := range d.tenants[i].pairs {
		all = append(all, history{limit: p.limit, window: p.window + late, answers: d.answers[i]})
	}
	return all
}

// TestAdvancesDenyOnlyWithoutRoom sends requests below and above the limits of hot keys, without faults. No request is denied
// while there is room. So whenever more is asked for than the limits admit, all that they admit is admitted.
func TestAdvancesDenyOnlyWithoutRoom(t *testing.T) {
	t.Parallel()
	f := startFleet(t, append(backends(startNodes(t, 2)...), "--advance", "yes", "--advance-time", "500"))
	const window = 4 * time.Second
	d := &demand{fleet: f, clients: 4, phases: []float64{0.8, 1.2, 0.6, 1.2, 1.2}}
	for _, cost := range []int64{1, 3} {
		d.tenants = append(d.tenants, tenant{key: fmt.Sprint(cost), command: "RL.SLIDE", pairs: []pair{{4000 * cost, window}}, cost: cost})
	}
	ctx, end := context.WithCancel(t.Context())
	done := d.start(ctx)
	var seen map[string]int64
	var busy []interval // when proxies accounted too late for the home to wait
	look := func() {
		before := seen
		seen = advanceStats(t, f, 0, 1, 2)
		if seen["advance_lapses"]+seen["advance_late"] > before["advance_lapses"]+before["advance_late"] {
			now := time.Now()
			busy = append(busy, interval{now.Add(-phase), now.Add(window + time.Second)})
		}
	}
	for d.phaseAt(time.Now()) < len(d.phases) || d.sent.Load() < soakUpTo(200_000, 0) || seen["advance_decisions"] == 0 || seen["advance_recalls"] == 0 {
		select {
		case <-done:
			require.NoError(t, d.failure)
			t.Fatal("the clients ended")
		case <-time.After(phase / 10):
		}
		look()
	}
	end()
	<-done
	require.NoError(t, d.failure)
	eventually(t, "advances to come back", func() bool {
		look()
		return seen["advances"] == 0
	})
	t.Logf("%d requests: %v", d.sent.Load(), seen)
	// A draw may be dated too late by a sixteenth of its advance's time, and by what the call took that its clock is from.
	late := 500*time.Millisecond/16 + time.Duration(seen["advance_slowest_call_us"])*time.Microsecond + 2*slack
	for i, c := range d.tenants {
		h := d.histories(i, 0)[0]
		require.NoError(t, h.checkLimit())
		h = d.histories(i, late)[0]
		h.answers = slices.DeleteFunc(slices.Clone(h.answers), func(a answer) bool {
			return a.allowed == 0 && slices.ContainsFunc(busy, func(b interval) bool { return a.sent.After(b.from) && a.sent.Before(b.to) })
		})
		require.NoError(t, h.checkDenials(), c.key)
		t.Logf("cost %s: %d admitted, %d denied when the machine was not too busy", c.key, len(h.admitted()), len(h.denied()))
	}
	f.stop(t)
}
