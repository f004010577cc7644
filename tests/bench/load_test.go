package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

func TestANodeThatStandsStillGoesOn(t *testing.T) {
	bed, err := testbed.Open(t.Context(), "")
	require.NoError(t, err)
	defer bed.Close()
	node, err := bed.Redis(nil)
	require.NoError(t, err)
	side := load{target: target{fronts: []*testbed.Server{node}, nodes: []*testbed.Server{node}}, command: []string{"INCR", manyKeys}, keys: 10, clients: 4, depth: 1,
		send: paced, rate: 1000, stopped: node}
	var s sample
	require.NoError(t, side.drive(context.Background(), 400, &s))
	require.Greater(t, s.P99, 150_000.0, "us: the node stands still for 200 ms")
	_, err = traffic.Ask(node.Address(), "PING")
	require.NoError(t, err)
}

// The share of denials is measured on both sides: from what scripts write, and from what rlproxy counts.
func TestDenialsAreMeasured(t *testing.T) {
	bed, err := testbed.Open(t.Context(), "")
	require.NoError(t, err)
	defer bed.Close()
	node, err := bed.Redis(nil)
	require.NoError(t, err)
	for _, q := range algorithms {
		ask := asked{q, "near", 3, 3_600_000}
		for _, side := range ask.directs(&lab{Testbed: bed}, load{target: target{fronts: []*testbed.Server{node}, nodes: []*testbed.Server{node}}, keys: 1, clients: 1, depth: 1, send: together}) {
			require.NoError(t, side.prepare(t.Context()))
			s, err := side.run(t.Context(), 12)
			require.NoError(t, err)
			require.InDelta(t, 75, s.denied, 1e-9, side.script)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `rlproxy_decisions_total{command="rl.slide",policy="",result="allowed"} 1.23456789e+08
rlproxy_decisions_total{command="rl.counter",policy="",result="allowed"} 2
rlproxy_decisions_total{command="rl.slide",policy="",result="denied"} 7
`)
	}))
	defer web.Close()
	at, err := url.Parse(web.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	admitted, err := (&testbed.Server{HTTPPort: port}).Admitted(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 123456791, admitted, 0)
}

func TestLimitsAreNearWhatTheSlowerSideMakes(t *testing.T) {
	limit := func(n nearLimit, rate float64) int { return n.within(rate).limit }
	require.Equal(t, 8, limit(nearLimit{keys: 2000, limit: 100, window: 1000}, 35_000))
	require.Equal(t, 360, limit(nearLimit{keys: 500, limit: 1000, window: 10_000}, 36_500))
	require.Equal(t, 100, limit(nearLimit{keys: 2000, limit: 100, window: 1000}, 1e6), "never more than what was meant")
	require.Equal(t, 1, limit(nearLimit{keys: 2000, limit: 100, window: 1000}, 10))
	titles := map[string]int{}
	for _, c := range everydayCases(&lab{Testbed: new(testbed.Testbed)}, options{keys: 100}) {
		if c.near != nil {
			near := c.near(35_000)
			titles[near.title]++
			require.Nil(t, near.near)
			require.Equal(t, near.b.even, near.direct[0].even, "both sides begin alike")
		}
	}
	require.Len(t, titles, 6)
	require.Equal(t, 2, titles["RL.COUNTER, 500 keys near 350 in 10 s"], "-P 1 and 16")
}

// In a long window a load that warms keys is spread over all of it.
func TestWarmingIsEven(t *testing.T) {
	bed, err := testbed.Open(t.Context(), "")
	require.NoError(t, err)
	defer bed.Close()
	node, err := bed.Redis(nil)
	require.NoError(t, err)
	side := load{target: target{fronts: []*testbed.Server{node}, nodes: []*testbed.Server{node}}, command: []string{"INCR", "n"}, keys: 1, clients: 2, depth: 1,
		send: together, warm: 2, even: 50}
	began := time.Now()
	require.NoError(t, side.warmUp(t.Context(), options{seconds: 1, warm: 1.5}, 1_000_000))
	require.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
	calls, err := node.CommandCalls("incr")
	require.NoError(t, err)
	require.InDelta(t, 100, calls, 0)
}
