package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// lateness is how much later than its deadline a test lets an answer come: on a busy
// machine far more than the few ms it should be, and less than what it waits for.
const lateness = time.Second

// waits holds how long requests waited for their answers.
type waits []time.Duration

// since adds the time since a request was sent.
func (w *waits) since(sent time.Time) { *w = append(*w, time.Since(sent)) }

// worst returns the longest one.
func (w waits) worst() time.Duration { return slices.Max(w).Round(time.Millisecond) }

// requireInTime requires that the answers came by their deadline, give or take lateness. On a busy
// machine, one in a hundred, or a single one, may be later by seconds.
func (w waits) requireInTime(t *testing.T, timeout time.Duration) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(w))
	require.NotEmpty(t, sorted)
	last := len(sorted) - 1
	require.Less(t, sorted[last-max(len(sorted)/100, min(last, 1))], timeout+lateness)
	require.Less(t, sorted[last], timeout+5*lateness)
}

// openOn opens an engine on a fleet, and closes both with the test.
func openOn(t testing.TB, nodes backend.Config, config Config) *Engine {
	t.Helper()
	fleet, err := backend.Open(nodes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	e := Open(fleet, config)
	e.steady = true
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// openAlways opens an engine that always asks the nodes.
func openAlways(t testing.TB, timeout time.Duration, urls ...string) *Engine {
	t.Helper()
	return openOn(t, backend.Config{Backends: urls, Timeout: timeout}, Config{AskAlways: true})
}

// openAt opens an engine on servers whose functions go by the given clock. Then it
// always asks them. Without a clock it remembers denials, as in service.
func openAt(t testing.TB, clock func() int64, servers ...*redistest.Server) *Engine {
	t.Helper()
	nodes := backend.Config{Timeout: 5 * time.Second}
	for _, s := range servers {
		nodes.Backends = append(nodes.Backends, s.URL())
	}
	e := openOn(t, nodes, Config{AskAlways: clock != nil})
	e.nodeClock = clock
	if clock == nil {
		listens(t, e, len(servers))
	}
	return e
}

// listens waits until an engine listens for the resets of all its nodes, which makes it forget the denials that it
// remembers.
func listens(t testing.TB, e *Engine, nodes int) {
	t.Helper()
	require.Eventually(t, func() bool { return e.denials.Resets() >= uint64(nodes) }, 20*time.Second, time.Millisecond)
}

// startServers starts nodes, and returns their URLs too.
func startServers(t testing.TB, n int) (servers []*redistest.Server, urls []string) {
	t.Helper()
	for range n {
		s := redistest.Start(t)
		servers, urls = append(servers, s), append(urls, s.URL())
	}
	return servers, urls
}

// openSplit opens engines, as so many proxies, on the same nodes.
func openSplit(t testing.TB, engines, nodes int) (out []*Engine, servers []*redistest.Server) {
	t.Helper()
	servers, urls := startServers(t, nodes)
	for range engines {
		e := openOn(t, backend.Config{Backends: urls, Timeout: 5 * time.Second}, Config{})
		listens(t, e, nodes)
		out = append(out, e)
	}
	return out, servers
}

// charge returns a request of cost 1 that answers UNAVAILABLE when its node cannot.
func charge(key string, most int64) engine.Request {
	r := conformance.Slide(key, most, 600_000, 1)
	r.Fail = engine.FailError
	return r
}

// splitRequest returns a request with SHARDS.
func splitRequest(key string, kind limit.Kind, cost int64, shards int, windows ...limit.Window) engine.Request {
	r := conformance.Request(kind, key, 0, 0)
	r.Cost, r.Shards, r.N = cost, shards, len(windows)
	if kind == limit.Counter {
		r.Param, r.Manner = 10, limit.Strict
	}
	copy(r.Windows[:], windows)
	return r
}

// ready waits until the engine answers for every key.
func ready(t testing.TB, e *Engine, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.Eventually(t, func() bool {
			return conformance.Ask(e, conformance.Inspect(key)).Err == nil
		}, 20*time.Second, 10*time.Millisecond, "no answer about %s", key)
	}
}

// allUp reports whether no node is down: requests to a node that is down test nothing.
func allUp(e *Engine) bool {
	return !slices.ContainsFunc(e.Topology().Nodes, (*backend.Node).Down)
}

// info returns an engine's INFO field.
func info(t testing.TB, e *Engine, name string) string {
	t.Helper()
	for _, f := range e.Stats() {
		if f.Name == name {
			return f.String()
		}
	}
	require.Fail(t, "INFO has no "+name)
	return ""
}

// slotOf returns the slot of a key's home.
func slotOf(key string) int { return shard.Slot(shard.AppendStoredKey(nil, []byte(key), 0)) }

// clusterKeys returns a key for each of three masters that share the slots evenly.
func clusterKeys() []string {
	const n = 3
	keys := make([]string, n)
	for i, left := 0, n; left > 0; i++ {
		key := fmt.Sprintf("key%d", i)
		if at := slotOf(key) * n / shard.Slots; keys[at] == "" {
			keys[at] = key
			left--
		}
	}
	return keys
}

// failOver asks a replica to take over from its master. Redis gives up after 5 s if the nodes are slow
// to learn of each other; the returned function then asks again.
func failOver(replica *redistest.Server) (insist func()) {
	var asked time.Time
	insist = func() {
		if time.Since(asked) > 6*time.Second {
			_, _ = replica.Ask("CLUSTER", "FAILOVER") // refused once it is a master
			asked = time.Now()
		}
	}
	insist()
	return insist
}
