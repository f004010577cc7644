package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What LOCAL admitted in each of two proxies while the node was away is charged on the node
// afterwards, every unit once, including requests that the node ran late.
func TestLocalCountsAreWrittenBack(t *testing.T) {
	t.Parallel()
	for _, away := range []struct {
		name        string
		leave, back func(*redistest.Server)
	}{
		{"hangs", (*redistest.Server).Pause, (*redistest.Server).Resume},
		{"is killed", (*redistest.Server).Kill, (*redistest.Server).Run},
	} {
		t.Run(away.name, func(t *testing.T) {
			s := redistest.Start(t)
			proxies := []*Engine{openAlways(t, 700*time.Millisecond, s.URL()), openAlways(t, 700*time.Millisecond, s.URL())}
			for _, e := range proxies {
				ready(t, e, "k")
			}
			away.leave(s)
			const keys, most = 600, 5
			key := func(i int) string {
				if i%3 == 0 {
					return fmt.Sprintf("key%d\xffs", i+1) // the shadow of the next one
				}
				return fmt.Sprintf("key%d", i)
			}
			for _, e := range proxies {
				admitted := map[string]int{}
				for range 3 {
					p := &engine.Pipeline{}
					for i := range keys {
						r := p.Add()
						*r = charge(key(i), most)
						r.Kind, r.Param, r.Fail, r.Cost = limit.Counter, 10, engine.FailLocal, 2
						if i%2 == 0 {
							r.Kind, r.Param = limit.Slide, 1
						}
					}
					e.Do(p)
					for i, res := range p.Results {
						require.NoError(t, res.Err)
						require.EqualValues(t, -1, res.Remaining)
						if res.Allowed {
							admitted[string(p.Requests[i].Key)]++
						}
					}
				}
				for i := range keys {
					require.Equal(t, 2, admitted[key(i)], "2 of cost 2 have room in 5")
				}
			}
			away.back(s)
			for _, e := range proxies {
				require.Eventually(t, func() bool { return info(t, e, "local_unwritten") == "0" }, 10*time.Second, 5*time.Millisecond)
				require.Equal(t, "0", info(t, e, "local_lost"))
			}
			written := func() bool { // the last of them are under way when the keys are gone
				for i := range keys {
					states := conformance.Ask(proxies[0], conformance.Inspect(key(i))).States
					if len(states) != 1 || states[0].Used != 8 {
						return false
					}
				}
				return true
			}
			require.Eventually(t, written, 10*time.Second, 5*time.Millisecond, "each proxy admitted 4 of each key")
			for i := range keys {
				require.False(t, conformance.Ask(proxies[1], charge(key(i-i%2), most)).Allowed, "the limit holds again")
			}
		})
	}
}

// What LOCAL admitted in a calendar window counts in that window of the node.
func TestLocalCountsOfCalendarWindowsAreWrittenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 700*time.Millisecond, s.URL())
	ready(t, e, "k")
	r := splitRequest("k", limit.Fixed, 1, 0, limit.Window{Limit: 3})
	r.Fail = engine.FailLocal
	r.Windows[0].Length, _ = limit.CalendarLength([]byte("year"))
	ask := func() engine.Result { return conformance.Ask(withCalendar(e), r) }
	require.EqualValues(t, 2, ask().Remaining)
	s.Kill()
	for i := range 4 { // the node's count is not known here
		res := ask()
		require.NoError(t, res.Err)
		require.EqualValues(t, -1, res.Remaining)
		require.Equal(t, i < 3, res.Allowed)
	}
	s.Run()
	proxytest.Eventually(t, "all to be written back", func() bool { return info(t, e, "local_unwritten") == "0" && allUp(e) })
	require.Equal(t, "0", info(t, e, "local_lost"))
	proxytest.Eventually(t, "the window to have it", func() bool {
		states := conformance.Ask(e, conformance.Inspect("k")).States
		return len(states) == 1 && states[0].Used == 3 // the node has lost the first one
	})
	res := ask()
	require.False(t, res.Allowed)
	require.Equal(t, engine.FailDefault, res.Fail)
}

// While a shard of a split key is away, its home admits nothing beyond the limit that the shard's
// lease was granted for. What LOCAL counted is written back when the lease has ended.
func TestLocalCountsAreWrittenBackLater(t *testing.T) {
	t.Parallel()
	engines, servers := openSplit(t, 1, 3)
	e, window := engines[0], limit.Window{Limit: 300, Length: 3_600_000}
	ask := splitRequest("later", limit.Slide, 1, 3, window)
	for i := range 60 {
		ask.ID = fmt.Appendf(nil, "%d", i) // so that every shard is asked
		require.True(t, conformance.Ask(e, ask).Allowed)
	}
	ask.ID = nil
	servers[e.Topology().Locate(ask.Key, 1)].Kill()
	r := ask
	r.Cost = 200
	require.True(t, e.local.Decide([]engine.Request{r}, false)[0].Allowed)
	e.local.Wake()
	require.Eventually(t, func() bool { return info(t, e, "local_written_back") == "1" }, 10*time.Second, time.Millisecond)
	require.Equal(t, "0", info(t, e, "local_lost"))
	require.Equal(t, "0", info(t, e, "local_unwritten"))
	own := conformance.Ask(e, conformance.Inspect(string(ask.Key)))
	require.NoError(t, own.Err)
	require.GreaterOrEqual(t, own.States[0].Used, int64(200))
	last := conformance.Ask(e, ask)
	require.NoError(t, last.Err)
	require.False(t, last.Allowed, "the dead shard's loan counts, too")
}

// A node whose last refusal was about a key that has its home elsewhere, such as a shard of it, takes what LOCAL counted
// without other requests to that node.
func TestLocalCountsAreWrittenBackAfterAShardWasRefused(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 2)
	e := openAlways(t, 5*time.Second, urls...)
	keys := keysOn(e)
	ready(t, e, keys...)
	e.queues.OpenAll().Queues[0].noteRefused([]byte(keys[1]), errors.New("OOM"))
	require.True(t, e.local.Decide([]engine.Request{charge(keys[0], 5)}, false)[0].Allowed)
	e.local.Wake()
	require.Eventually(t, func() bool { return info(t, e, "local_written_back") == "1" }, 10*time.Second, time.Millisecond)
	require.Equal(t, "up", e.Nodes()[0].State)
}
