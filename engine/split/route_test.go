package split

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

// run is one run of a pipeline.
type run struct {
	*testing.T
	s      *Splitter
	routes Routes
}

// goes returns the shard that a request goes to, which does not have to wait.
func (r *run) goes(request engine.Request) int {
	r.Helper()
	shard, waits, ok := r.s.Route(&r.routes, &request)
	require.True(r, ok)
	require.False(r, waits)
	return shard
}

// comesLater holds that a request has to come after those of the run.
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
	require.Zero(t, s.Suspects.Load())
}

// Requests of a pipeline that ask the same of a split key go to one shard. What asks
// something else waits for them.
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
	require.Equal(t, first, r.goes(open), "its policy decides nothing")

	r.routes = Routes{}
	require.Zero(t, r.goes(peek))
	require.Zero(t, r.goes(peek), "the same again")
	r.comesLater(ask("k", 1000, 3), "what charges does not overtake what reads")

	r.routes = Routes{}
	require.Zero(t, r.goes(conformance.Reset("k")))
	r.comesLater(conformance.Reset("k"), "resets are told apart")
}

// What reads an unsplit key is not overtaken by what splits it.
func TestReadsBeforeASplit(t *testing.T) {
	s, _ := open(t, 3, Config{})
	r := run{T: t, s: s}
	require.Zero(t, r.goes(conformance.Inspect("k")))
	r.comesLater(ask("k", 1000, 3), "it splits the key")
}

// Requests with IDs go each to its own shard.
func TestIDsOfOnePipeline(t *testing.T) {
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

// A shard whose node is down is not asked: the home is.
func TestShardsOnNodesThatAreDown(t *testing.T) {
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

// While shards are recalled for the same limits, to ask one would be in vain.
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
	dear := request
	dear.Cost = 5
	_, waits, _ := s.Route(&routes, &dear)
	require.True(t, waits, "the limits are the same")
	other := ask("k", 999, 3)
	routes = Routes{}
	_, waits, _ = s.Route(&routes, &other)
	require.False(t, waits)
	delete(s.resolvers, idOf(&request))
}
