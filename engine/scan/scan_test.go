package scan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, nodes ...*redistest.Server) NodeKeys {
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return NodeKeys{fleet}
}

// scan adds the names that a scan finds from a cursor on, in at most so many pieces, and returns the next cursor.
func (x NodeKeys) scan(t *testing.T, found map[string]bool, cursor string, visits, pieces int) string {
	for ; pieces > 0; pieces-- {
		next, err := x.Scan(cursor, visits, func(name []byte) { found[string(name)] = true })
		require.NoError(t, err)
		if cursor = next; next == "0" {
			break
		}
	}
	return cursor
}

// A proxy with the same nodes in another order goes on with a cursor. One without its node goes on with the next one.
func TestAScanGoesOnElsewhere(t *testing.T) {
	nodes := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	one, other := open(t, nodes...), open(t, nodes[2], nodes[0], nodes[1])
	top := one.Fleet.Topology()
	for i := range 300 {
		key := fmt.Append(nil, "key", i)
		stored := string(shard.AppendStoredKey(nil, key, 0))
		require.NoError(t, top.Nodes[top.Locate(key, 0)].Client().Set(t.Context(), stored, "", 0).Err())
	}
	for pieces := range 60 {
		found := map[string]bool{}
		cursor := one.scan(t, found, "0", 7, 1+pieces)
		if cursor != "0" {
			require.Equal(t, "0", other.scan(t, found, cursor, 50, 100))
		}
		require.Len(t, found, 300, "after %d pieces", pieces)
		fewer := open(t, nodes[pieces%3], nodes[(pieces+1)%3])
		require.Equal(t, "0", fewer.scan(t, found, cursor, 1000, 100))
	}
}

// A node that is started again lists its keys in another order, so a scan begins there anew.
func TestAScanBeginsAnewAtANodeThatWasStartedAgain(t *testing.T) {
	n := redistest.Start(t)
	x := open(t, n)
	fill := func() {
		for i := range 300 {
			require.NoError(t, n.Client.Set(t.Context(), fmt.Sprintf("rl:{key%d}", i), "", 0).Err())
		}
	}
	fill()
	found := map[string]bool{}
	cursor := x.scan(t, found, "0", 10, 15)
	require.NotEqual(t, "0", cursor)
	n.Kill()
	n.Run()
	fill() // as if it had read them from a file
	require.Eventually(t, func() bool {
		_, err := x.Scan("0", 1, func([]byte) {})
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, "0", x.scan(t, found, cursor, 10, 1000))
	require.Len(t, found, 300)
}

// What rlproxy stores for itself is no key, and neither is what belongs on another node.
func TestOnlyKeysOfClientsAreFound(t *testing.T) {
	nodes := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	x := open(t, nodes...)
	top := x.Fleet.Topology()
	at := func(key string) *redistest.Server {
		return nodes[slices.IndexFunc(nodes, func(n *redistest.Server) bool { return n.Addr == top.Nodes[top.Locate([]byte(key), 0)].Name() })]
	}
	set := func(n *redistest.Server, stored string) {
		require.NoError(t, n.Client.Set(t.Context(), stored, "x", 0).Err())
	}
	for _, n := range nodes {
		for _, stored := range []string{"rl:{%policies}", "rl:{%hotkeys}name", "rl:{%backends}", "app", "rl:{lost", "rl:{a%zz}", "rl:{shared}"} {
			set(n, stored)
		}
	}
	set(at("calm"), "rl:{calm}%a")
	set(at("once"), "rl:{once}%i")
	set(at("x{y}%"), "rl:{x%7By%7D%25%s}")
	found := map[string]bool{}
	require.Equal(t, "0", x.scan(t, found, "0", 1, 1000))
	require.Equal(t, map[string]bool{"shared": true, "once": true, "x{y}%\xffs": true}, found)
}

func TestACursorIsOneThatScanHasReturned(t *testing.T) {
	x := open(t, redistest.Start(t))
	for _, cursor := range []string{"", "1", "x", "0-", "0-0-", "-1-0-a", "0-g-a", "99999999999999999999-0-a"} {
		_, err := x.Scan(cursor, 1, func([]byte) {})
		require.ErrorIs(t, err, engine.ErrCursor, cursor)
	}
}

func TestANodeThatIsAwayIsUnavailable(t *testing.T) {
	n := redistest.Start(t)
	x := open(t, n)
	n.Kill()
	_, err := x.Scan("0", 10, func([]byte) {})
	require.ErrorContains(t, err, "UNAVAILABLE "+n.Addr+": ")
}
