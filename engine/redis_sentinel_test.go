package engine

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A master that hangs is answered for by policy until the sentinels have made the
// replica master; the old one, when it is back, is not asked.
func TestSentinelFailover(t *testing.T) {
	const timeout = 500 * time.Millisecond
	g := redistest.StartGuarded(t)
	e := openBackend(t, timeout, g.URL())
	ready(t, e, "k")
	require.NoError(t, do(e, charge("k", 1000)).Err)
	states := do(e, Request{Op: OpInspect, Key: []byte("k")}).States
	require.Len(t, states, 1)
	require.Equal(t, g.Master.Addr, states[0].Node)

	g.Master.Pause()
	t.Cleanup(g.Master.Kill)
	stopped := time.Now()
	var worst time.Duration
	require.Eventually(t, func() bool {
		from := time.Now()
		res := do(e, charge("k", 1000))
		worst = max(worst, time.Since(from))
		return res.Err == nil
	}, 20*time.Second, 10*time.Millisecond, "the replica took over")
	t.Logf("taken over after %s, worst answer %s", time.Since(stopped).Round(time.Millisecond), worst.Round(time.Millisecond))
	require.Less(t, worst, timeout+lateness)
	g.Master.Resume()
	states = do(e, Request{Op: OpInspect, Key: []byte("k")}).States
	require.Len(t, states, 1)
	require.Equal(t, g.Replica.Addr, states[0].Node)
}
