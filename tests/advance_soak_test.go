package tests

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// advanceTenants are hot keys of every algorithm, with what is promised for each window.
var advanceTenants = []struct {
	tenant
	check func(h *history) error
}{
	{tenant{key: "slide", command: "RL.SLIDE", pairs: []pair{{2000, time.Second}}, cost: 1}, (*history).checkLimit},
	{tenant{key: "long", command: "RL.SLIDE", pairs: []pair{{6000, 3 * time.Second}}, cost: 2}, (*history).checkLimit},
	{tenant{key: "two", command: "RL.SLIDE", pairs: []pair{{1000, time.Second}, {2500, 3 * time.Second}}, cost: 1}, (*history).checkLimit},
	{tenant{key: "strict", command: "RL.COUNTER", pairs: []pair{{1000, time.Second}}, cost: 1, options: []any{"BUCKETS", 10, "STRICT"}},
		(*history).checkLimit},
	{tenant{key: "weighed", command: "RL.COUNTER", pairs: []pair{{1000, time.Second}}, cost: 1},
		func(h *history) error { return h.checkWeighed(1) }},
	{tenant{key: "fixed", command: "RL.FIXED", pairs: []pair{{1000, time.Second}}, cost: 1}, (*history).checkFixed},
	{tenant{key: "shadowed", command: "RL.SLIDE", pairs: []pair{{1200, time.Second}}, lower: 1000, cost: 1}, (*history).checkOwnLimits},
}

// advanceStats returns the sums of the counters about advances in INFO of all proxies, and of times the longest.
func advanceStats(t *testing.T, f *fleet) map[string]int64 {
	t.Helper()
	sums := make(map[string]int64)
	for i := range f.proxies {
		text, err := f.proxy(i).client(t, 2).Info(context.Background(), "engine").Result()
		require.NoError(t, err)
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

func advanceDemand(f *fleet, phases ...float64) *demand {
	d := &demand{fleet: f, clients: 4, phases: phases}
	for _, c := range advanceTenants {
		d.tenants = append(d.tenants, c.tenant)
	}
	return d
}

// histories returns the answers about a tenant by window. late is how much longer a unit may count.
func (d *demand) histories(i int, late time.Duration) (all []history) {
	for _, p := range d.tenants[i].pairs {
		all = append(all, history{limit: p.limit, window: p.window + late, answers: d.answers[i]})
	}
	return all
}

// TestAdvancesHoldTheirLimitsUnderFaults sends requests below and above the limits of hot keys through three proxies that
// are killed, or stopped for longer than an advance lasts. No window admitted more than the limit. SOAK_REQUESTS sets the
// least number of requests.
func TestAdvancesHoldTheirLimitsUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFleet(t, append(backends(startNodes(t, 2)...), "--advance", "yes"))
	d := advanceDemand(f, 0.5, 0.9, 1.5)
	ctx, end := context.WithCancel(t.Context())
	done := d.start(ctx)
	faults := 0
	for next := time.NewTicker(1100 * time.Millisecond); faults < 8 || d.sent.Load() < soak; faults++ {
		select {
		case <-done:
			require.NoError(t, d.failure)
			t.Fatal("the clients ended")
		case <-next.C:
		}
		if p := f.proxy(faults % 3); faults%2 == 0 {
			f.restart(t, faults%3)
		} else {
			p.Signal(t, syscall.SIGSTOP)
			<-next.C
			p.Signal(t, syscall.SIGCONT)
		}
	}
	seen := advanceStats(t, f)
	end()
	<-done
	require.NoError(t, d.failure)
	t.Logf("%d requests, %d faults; since the last kills: %v", d.sent.Load(), faults, seen)
	for i, c := range advanceTenants {
		for _, h := range d.histories(i, 0) {
			t.Logf("%-10s %6d admitted, %6d denied, %4d unknown", c.key, len(h.admitted()), len(h.denied()), len(h.lost()))
			require.NoError(t, c.check(&h), c.key)
			require.NotEmpty(t, h.denied(), c.key)
		}
	}
	require.Positive(t, seen["advance_decisions"])
	f.stop(t)
}

// TestAdvancesDenyOnlyWithoutRoom is the same without faults, with a demand that crosses the limits. No request is denied
// while there is room, and what the limits admit is admitted.
func TestAdvancesDenyOnlyWithoutRoom(t *testing.T) {
	t.Parallel()
	f := startFleet(t, append(backends(startNodes(t, 2)...), "--advance", "yes", "--advance-time", "500"))
	d := &demand{fleet: f, clients: 4, phases: []float64{0.8, 1.2, 0.6, 1.2, 1.2}}
	for _, cost := range []int64{1, 3} {
		d.tenants = append(d.tenants, tenant{key: fmt.Sprint(cost), command: "RL.SLIDE", pairs: []pair{{4000 * cost, 4 * time.Second}}, cost: cost})
	}
	ctx, end := context.WithCancel(t.Context())
	done := d.start(ctx)
	require.Eventually(t, func() bool {
		return d.phaseAt(time.Now()) >= len(d.phases) && d.sent.Load() >= soak || len(done) > 0
	}, time.Hour, phase/10)
	end()
	<-done
	require.NoError(t, d.failure)
	var seen map[string]int64
	eventually(t, "advances to come back", func() bool {
		seen = advanceStats(t, f)
		return seen["advances"] == 0
	})
	t.Logf("%d requests: %v", d.sent.Load(), seen)
	require.Positive(t, seen["advance_decisions"])
	require.Positive(t, seen["advance_recalls"])
	// A draw may be dated too late by a sixteenth of its advance's time, and by what the call took that its clock is from.
	late := 500*time.Millisecond/16 + time.Duration(seen["advance_slowest_call_us"])*time.Microsecond + 2*slack
	for i, c := range d.tenants {
		h := d.histories(i, 0)[0]
		require.NoError(t, h.checkLimit())
		if seen["advance_lapses"]+seen["advance_late"] > 0 {
			t.Log("the machine was too busy for proxies to account in time, so denials are not judged")
			break
		}
		h = d.histories(i, late)[0]
		require.NoError(t, h.checkDenials(), c.key)
		t.Logf("cost %s: %d admitted, %d denied", c.key, len(h.admitted()), len(h.denied()))
	}
	f.stop(t)
}
