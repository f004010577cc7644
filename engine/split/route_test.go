package split

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

// run is one run of a pipeline, see Routes.
type run struct {
	*testing.T
	s      *Splitter
	routes Routes
}

// goes returns the shard that a request goes to, and checks that the request need not wait.
func (r *run) goes(request engine.Request) int {
	r.Helper()
	shard, waits, ok := r.s.Route(&r.routes, &request)
	require.True(r, ok)
	require.False(r, waits)
	return shard
}

// comesLater checks that a request must wait for those of the run.
func (r *run) comesLater(request engine.Request, why string) {
	r.Helper()
	_, _, ok := r.s.Route(&r.routes, &request)
	require.False(r, ok, why)
}

func TestUnsplitKeysGoHome(t *testing.T) {
	s, _ := open(t, 3, Config{})
	r := run{T: t, s: s}
	for range 3 {
		require.Zero(t, r.goes(ask("k", 10, 0)))
		require.Zero(t, r.goes(ask("k", 11, 1)))
		require.Zero(t, r.goes(conformance.Reset("k")))
		require.Zero(t, r.goes(conformance.Inspect("k")))
	}
	require.Zero(t, s.PossiblySplit.Load())
}

// Equal requests of a pipeline about a split key go to one shard. A different request about the
// key waits for them.
func TestOrderWithinAKey(t *testing.T) {
	s, _ := open(t, 3, Config{})
	r := run{T: t, s: s}
	first := r.goes(ask("k", 1000, 3))
	for range 3 * maxTurn {
		require.Equal(t, first, r.goes(ask("k", 1000, 3)))
	}
	other := ask("k", 1000, 3)
	other.Cost = 2
	r.comesLater(other, "another cost")
	r.comesLater(ask("k", 1001, 3), "another limit")
	r.comesLater(conformance.Reset("k"), "a reset")
	r.comesLater(conformance.Inspect("k"), "an inspection")
	peek := ask("k", 1000, 3)
	peek.Cost = 0
	r.comesLater(peek, "a request without cost")
	r.goes(ask("other", 1000, 3))
	open := ask("k", 1000, 3)
	open.Fail = engine.FailOpen
	require.Equal(t, first, r.goes(open), "the FAIL policy does not matter")

	r.routes = Routes{}
	require.Zero(t, r.goes(peek))
	require.Zero(t, r.goes(peek), "an equal request")
	r.comesLater(ask("k", 1000, 3), "a request that charges does not overtake one that reads")

	r.routes = Routes{}
	require.Zero(t, r.goes(conformance.Reset("k")))
	r.comesLater(conformance.Reset("k"), "resets are never equal")
}

// A request that splits a key does not overtake one that reads the key before it is split.
func TestASplitDoesNotOvertakeReads(t *testing.T) {
	s, _ := open(t, 3, Config{})
	r := run{T: t, s: s}
	require.Zero(t, r.goes(conformance.Inspect("k")))
	r.comesLater(ask("k", 1000, 3), "it splits the key")
}

// Each request with an ID goes to the shard of its ID.
func TestRequestsWithIDsGoToTheirShards(t *testing.T) {
	s, _ := open(t, 3, Config{})
	r := run{T: t, s: s}
	seen := map[int]bool{}
	for i := range 30 {
		request := ask("k", 1000, 3)
		request.ID = fmt.Append(nil, i)
		seen[r.goes(request)] = true
	}
	require.Len(t, seen, 3)
}

// If a shard's node is down, the home is asked instead.
func TestShardsOnNodesThatAreDownAreNotAsked(t *testing.T) {
	s, n := open(t, 2, Config{})
	r := run{T: t, s: s}
	request := ask("k", 1000, 2)
	top := n.Topology()
	away := top.Nodes[top.Locate(request.Key, 1)]
	for !away.Down() {
		away.Record(errors.New("connection refused"))
	}
	for range 10 {
		r.routes = Routes{}
		n.now.Add(1)
		require.Zero(t, r.goes(request))
	}
}

// While shards are being recalled for the same limits, requests wait, because no shard would
// admit them.
func TestRequestsWaitForARecall(t *testing.T) {
	s, _ := open(t, 3, Config{})
	request := ask("k", 1000, 3)
	s.choose(&request, 3, -1) // now the key is known to be split
	s.resolvers[idOf(&request)] = &resolver{recalling: true}
	var routes Routes
	for range 2 {
		shard, waits, ok := s.Route(&routes, &request)
		require.True(t, ok)
		require.True(t, waits)
		require.Zero(t, shard)
	}
	routes = Routes{}
	costly := request
	costly.Cost = 5
	_, waits, _ := s.Route(&routes, &costly)
	require.True(t, waits, "the limits are the same")
	other := ask("k", 999, 3)
	routes = Routes{}
	_, waits, _ = s.Route(&routes, &other)
	require.False(t, waits)
	delete(s.resolvers, idOf(&request))
}
