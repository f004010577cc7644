package redis

import (
	"runtime"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Close stops everything that Open has started, whatever state the nodes are in.
func TestCloseLeavesNothing(t *testing.T) {
	well, hung, gone := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	before := runtime.NumGoroutine()
	for _, urls := range [][]string{
		{well.URL(), hung.URL(), gone.URL()},
		{"redis+sentinel://" + gone.Addr + "/main", "redis+sentinel://" + hung.Addr + "/other", well.URL()},
		{"redis+cluster://" + well.Addr + "," + hung.Addr},
	} {
		fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: 50 * time.Millisecond})
		require.NoError(t, err)
		e := Open(fleet, Config{Settings: Settings{Fail: engine.FailLocal}})
		hung.Pause()
		gone.Kill()
		for range 3 {
			p := &engine.Pipeline{}
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				r := p.Add()
				*r = charge(key, 10)
				r.Fail = engine.FailDefault
			}
			e.Do(p)
		}
		require.NoError(t, e.Close())
		require.NoError(t, fleet.Close())
		hung.Resume()
		gone.Run()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
		"goroutines are left") // +1: Eventually's own
}
