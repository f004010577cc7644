package backend

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// OnClose functions run before the client is closed. If the node is closed already, OnClose
// calls the function at once.
func TestOnCloseFunctionsRunBeforeTheClientIsClosed(t *testing.T) {
	s := redistest.Start(t)
	f, err := Open(Config{Backends: []string{s.URL()}, Timeout: 5 * time.Second})
	require.NoError(t, err)
	n := f.Topology().Nodes[0]
	failure := errors.New("the queue did not end")
	ran := 0
	n.OnClose(func() error {
		ran++
		require.NoError(t, n.Client().Ping(t.Context()).Err())
		return failure
	})
	require.ErrorIs(t, f.Close(), failure)
	require.Equal(t, 1, ran)
	require.Error(t, n.Client().Ping(t.Context()).Err())
	n.OnClose(func() error { ran++; return nil })
	require.Equal(t, 2, ran)
}

func TestFailedNodeIsProbedUntilItRecovers(t *testing.T) {
	s := redistest.Start(t)
	f := openTest(t, Config{Backends: []string{s.URL()}, Timeout: 200 * time.Millisecond})
	heard := make(chan Health, 10)
	f.OnRecovered(func(n *Node, was Health) {
		require.Equal(t, s.Addr, n.Name())
		heard <- was
	})
	n := f.Topology().Nodes[0]
	require.NoError(t, n.Client().Ping(t.Context()).Err())
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), f.Timeout())
	defer cancel()
	err := n.Client().Ping(ctx).Err()
	require.True(t, Failed(err))
	require.True(t, MaybeApplied(err))
	n.Record(err)
	require.Eventually(t, n.Down, 10*time.Second, time.Millisecond)
	require.Equal(t, "no answer in time", n.Reason())
	s.Resume()
	require.Eventually(t, func() bool { return n.Health() == Up }, 10*time.Second, time.Millisecond)
	require.Equal(t, Down, <-heard)
	require.Equal(t, int64(2), n.Failures())
	require.Nil(t, redirected(f, n, "127.0.0.1:1"), "redirects are not followed without a watcher")
}

// The address of a demoted node may resolve to another server.
func TestDemotedNodeLosesItsConnections(t *testing.T) {
	s := redistest.Start(t)
	f := openTest(t, Config{Backends: []string{s.URL()}})
	n := f.Topology().Nodes[0]
	id := func() int64 {
		v, err := n.Client().ClientID(t.Context()).Result()
		require.NoError(t, err)
		return v
	}
	before := id()
	require.Equal(t, before, id())
	n.Record(Reply("READONLY You can't write against a read only replica."))
	require.Eventually(t, func() bool { return n.Health() == Up }, 10*time.Second, time.Millisecond)
	require.NotEqual(t, before, id())
}

// The topology stays the same object while nothing changes, and Close ends every
// goroutine.
func TestFleetOfAClusterFindsItsNodes(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	before := runtime.NumGoroutine()
	for _, n := range c.Nodes {
		n.Pause()
	}
	f, err := Open(Config{Backends: []string{c.URL()}, Timeout: 5 * time.Second})
	require.NoError(t, err)
	first := f.Topology().Nodes[0]
	require.True(t, first.Down())
	require.Nil(t, first.Client())
	require.Equal(t, "no cluster node has answered yet", first.Reason())
	for _, n := range c.Nodes {
		n.Resume()
	}
	require.Eventually(t, func() bool { return len(f.Topology().Nodes) == 3 }, 10*time.Second, time.Millisecond)
	top := f.Topology()
	require.True(t, top.Clustered())
	node, slot := top.LocateStored([]byte("rl:{a}"))
	require.EqualValues(t, 15495, slot)
	require.Equal(t, node, top.Locate([]byte("a"), 0))
	require.Equal(t, c.Nodes[2].Addr, top.Nodes[node].Name())
	require.Len(t, top.Spread([]byte("a"), 3), 3)
	for range 5 {
		f.CheckTopology()
		time.Sleep(50 * time.Millisecond) // some rounds of the watcher
	}
	require.Same(t, top, f.Topology())
	require.Same(t, top.Nodes[0], redirected(f, top.Nodes[1], top.Nodes[0].Name()))
	require.NoError(t, f.Close())
	require.Nil(t, redirected(f, top.Nodes[1], "127.0.0.1:1"))
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
		"goroutines are left") // +1: Eventually's own
}

// Nodes that are databases of one server have different names; others have their addresses.
func TestNodesHaveDifferentNames(t *testing.T) {
	for _, c := range []struct{ backends, names []string }{
		{[]string{"redis://127.0.0.1:7000/1"}, []string{"127.0.0.1:7000"}},
		{
			[]string{"redis://127.0.0.1:7000", "redis://localhost:7000/1", "redis://127.0.0.1:7001/1", "redis://127.0.0.1:7000/2"},
			[]string{"127.0.0.1:7000/0", "localhost:7000/1", "127.0.0.1:7001", "127.0.0.1:7000/2"},
		},
		{
			[]string{"redis+sentinel://127.0.0.1:1/a", "redis+sentinel://127.0.0.1:1/b", "redis+sentinel://127.0.0.1:1/b/2"},
			[]string{"127.0.0.1:1/a/0", "127.0.0.1:1/b/0", "127.0.0.1:1/b/2"},
		},
	} {
		f := openTest(t, Config{Backends: c.backends, Timeout: time.Second})
		var names []string
		for _, n := range f.Topology().Nodes {
			names = append(names, n.Name())
		}
		require.Equal(t, c.names, names)
	}
}

func TestMalformedRepliesAreEpisodes(t *testing.T) {
	w := logged.New()
	n := absentNode(&Fleet{config: Config{Logger: w.Logger(), Now: w.Now}}, "a:1", "a test")
	w.RequireEpisodes(t, logged.Lines{
		Began: `"the node sent a malformed reply; what waited on the same connection gets none" node=a:1`,
		Ended: `"the node sends no malformed replies any more" node=a:1`, Calm: episodes.Every,
		Detail: ` why="` + ErrMalformed.Error() + `"`, Count: "times",
	}, func() { n.Record(ErrMalformed) }, func() { n.Record(nil) })
}
