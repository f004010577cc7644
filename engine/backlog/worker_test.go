package backlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const unit = 60 * time.Microsecond // the work of a request

var bounds = Bounds{Least: 2 * unit, Most: 256 * unit}

// While batches are slow, what is stored makes requests dearer than most are: pipelines are asked in shorter runs, down to two
// requests. Batches that are not slow make them longer again.
func TestTheAllowanceFollowsWhatBatchesTake(t *testing.T) {
	t.Parallel()
	var a allowance
	a.set(bounds)
	var at time.Duration
	batch := func(work, took time.Duration) time.Duration {
		at += time.Second
		a.Observe(work, at, at+took)
		return a.Allowance()
	}
	const quick, slow = slowBatch / 100, 5 * slowBatch
	batch(unit, quick) // the way to the node is known
	require.Equal(t, bounds.Most, a.Allowance())
	require.Equal(t, bounds.Most, batch(5*unit, slow), "it may have waited for others")
	require.InDelta(t, bounds.Most/5, batch(50*unit, slow), float64(unit))
	for a.Allowance() > bounds.Least {
		require.Less(t, batch(a.Allowance(), slow), bounds.Most/20)
	}
	require.Equal(t, bounds.Least, batch(unit, slow))
	for range 200 {
		batch(a.Allowance(), quick)
	}
	require.Equal(t, bounds.Most, a.Allowance())
}

// How far a node is away does not lower its allowance, also when batches overlap on the way.
func TestTheAllowanceDoesNotDependOnTheDistance(t *testing.T) {
	t.Parallel()
	var a allowance
	a.set(bounds)
	const (
		ms   = time.Millisecond
		dear = 10 * ms
	)
	for at := time.Duration(0); at < 10*time.Second; at += 20 * ms { // a batch each 20 ms, on a way of 40 ms
		a.Observe(dear, at, at+40*ms+at%3)
		require.Equal(t, bounds.Most, a.Allowance())
	}
	a.Observe(dear, 20*time.Second, 20*time.Second+60*ms) // the node has worked for 20 ms
	require.InDelta(t, bounds.Most/10, a.Allowance(), float64(ms))
	a.Observe(dear, 20*time.Second+30*ms, 20*time.Second+80*ms) // for 10 ms, after the batch before
	require.InDelta(t, bounds.Most/50, a.Allowance(), float64(ms))
}
