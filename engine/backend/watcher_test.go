package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The process survives any reply of a sentinel, a cluster node or a single node. The watcher
// logs that the topology is unknown.
func TestMalformedRepliesLeaveTheTopologyUnknown(t *testing.T) {
	for i, reply := range []string{
		"", "\r\n", "+\r\n", "-\r\n", "$5\r\nab", "$-7\r\n", "*-3\r\n", "*2\r\n*-1\r\n:1\r\n", "$999999999999999999999\r\n", ":x\r\n", "!!!\r\n",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n", "*1\r\n*3\r\n:-9\r\n:99999999\r\n*2\r\n$1\r\nx\r\n:-1\r\n",
		"*2\r\n$0\r\n\r\n$0\r\n\r\n", "*1\r\n$1\r\nx\r\n", ">2\r\n$7\r\nmessage\r\n*0\r\n", "%1\r\n:1\r\n", strings.Repeat("*1\r\n", 1000),
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			addr := babbler(t, reply)
			for _, url := range []string{"redis+sentinel://" + addr + "/main", "redis+cluster://" + addr, "redis://" + addr} {
				var log proxytest.LockedBuffer
				f := openTest(t, Config{Backends: []string{url}, Timeout: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				n := f.Topology().Nodes[0]
				if n.Client() != nil {
					ctx, cancel := context.WithTimeout(t.Context(), n.Timeout())
					n.Record(n.Client().Ping(ctx).Err())
					cancel()
					continue
				}
				require.Eventually(t, func() bool {
					return strings.Contains(log.String(), `msg="topology unknown" why=`)
				}, 10*time.Second, time.Millisecond, "%s %q: %s", url, reply, log.String())
				require.True(t, n.Down())
			}
		})
	}
}

// Servers are asked in turns, so their errors come in different orders. That makes no new error, which would be logged.
func TestTheTopologyIsUnknownForTheSameReasonInAnyOrder(t *testing.T) {
	const want = "no sentinel or cluster node answered as it should; one said: NOAUTH Authentication required."
	no, login, right := errors.New("i/o timeout"), Reply("NOAUTH Authentication required."), Reply("NOPERM no permissions")
	for _, failures := range [][]error{{login, no, right}, {right, login, no}, {no, right, login}} {
		require.EqualError(t, noAnswer(failures), want)
	}
	require.EqualError(t, noAnswer([]error{no, no}), errNoAnswer.Error()+": "+Reason(no))
}

func TestAnUnknownTopologyIsAnEpisode(t *testing.T) {
	world := logged.New()
	w := watcher{unknown: episodes.New(world.Logger(), world.Now, topologyUnknown)}
	world.RequireEpisodes(t, logged.Lines{
		Began: `"topology unknown"`, Still: `"topology still unknown"`, Ended: `"topology known again"`,
		Detail: ` why="no sentinel or cluster node answered"`, Count: "times",
	}, func() { w.note(errNoAnswer) }, func() { w.note(nil) })
	world.Wait(time.Second)
	w.note(Reply("NOAUTH"))
	require.Equal(t, "level=WARN msg=\"topology unknown\" why=NOAUTH times=1\n", world.Said(), "another reason")
	w.note(noAnswer([]error{context.DeadlineExceeded, io.EOF}))
	require.Equal(t, "level=WARN msg=\"topology unknown\" why=\"no sentinel or cluster node answered: connection failed: EOF\" times=1\n", world.Said())
	w.note(noAnswer([]error{context.DeadlineExceeded}))
	require.Empty(t, world.Said(), "nobody answers, if in another way")
}

// Each URL has its own login for the sentinels, also if several URLs name the same sentinels.
func TestEachBackendHasItsOwnLoginForItsSentinels(t *testing.T) {
	backends, err := parseBackends([]string{
		"redis+sentinel://127.0.0.1:1/a", "redis+sentinel://127.0.0.1:1/b?sentinel_username=watcher&sentinel_password=secret",
	})
	require.NoError(t, err)
	w := newWatcher(openTest(t, Config{Backends: []string{"redis://127.0.0.1:1"}}), backends)
	for i, user := range []string{"", "watcher"} {
		client := w.client(backends[i], backends[i].seeds[0])
		require.Equal(t, user, client.Options().Username)
		require.Same(t, client, w.client(backends[i], backends[i].seeds[0]))
	}
	for _, client := range w.clients {
		require.NoError(t, client.Close())
	}
}

// A node that has left the topology is closed some seconds later, after its OnClose functions.
func TestNodesThatLeaveTheTopologyAreClosed(t *testing.T) {
	g := redistest.StartGuarded(t)
	f := openTest(t, Config{Backends: []string{g.URL()}})
	if first := f.Topology().Nodes[0]; first.Client() == nil { // else a sentinel was faster
		require.Equal(t, "no sentinel has named the master yet", first.Reason())
	}
	master := func() *Node { return f.Topology().Nodes[0] }
	require.Eventually(t, func() bool { return master().Name() == g.Master.Addr }, 10*time.Second, time.Millisecond)
	left := master()
	closed := make(chan struct{})
	left.OnClose(func() error { close(closed); return nil })
	g.Sentinels[0].Do("SENTINEL", "FAILOVER", redistest.SentinelName)
	require.Eventually(t, func() bool { return master().Name() == g.Replica.Addr }, 20*time.Second, time.Millisecond)
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the old master is not closed")
	}
	require.Error(t, left.Client().Ping(t.Context()).Err())
}

// A node that takes long to close, because a forwarded command is under way, does not keep the watcher from noticing the
// next failover.
func TestTheWatcherGoesOnWhileAnOldNodeIsClosed(t *testing.T) {
	var port, passed atomic.Int64
	port.Store(1)
	f := openTest(t, Config{
		Backends: []string{"redis+sentinel://" + fakeSentinel(t, &port) + "/main"}, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) },
	})
	becomes := func(want int64) {
		t.Helper()
		port.Store(want)
		require.Eventually(t, func() bool {
			f.CheckTopology()
			return f.Topology().Nodes[0].Name() == fmt.Sprint("127.0.0.1:", want)
		}, 10*time.Second, 10*time.Millisecond)
	}
	becomes(1)
	closing, closed := make(chan struct{}), make(chan struct{})
	f.Topology().Nodes[0].OnClose(func() error {
		close(closing)
		<-closed
		return nil
	})
	defer close(closed)
	becomes(2)
	proxytest.Eventually(t, "the old node to be closed", func() bool {
		f.CheckTopology()
		passed.Add(int64(retireAfter))
		select {
		case <-closing:
			return true
		default:
			return false
		}
	})
	becomes(3)
}
