package backend

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// examined has a node examined at a time of its own, and returns what was logged.
func examined(t *testing.T, w *logged.World, n *Node) string {
	t.Helper()
	require.Eventually(t, func() bool { return !Failed(n.Client().Ping(t.Context()).Err()) }, 10*time.Second, time.Millisecond)
	n.examine(t.Context())
	return w.Said()
}

// openExamined opens a fleet of one node, which has been examined once, and returns what was logged then.
func openExamined(t *testing.T, url string) (w *logged.World, n *Node, said string) {
	t.Helper()
	w = logged.New()
	f := openTest(t, Config{Backends: []string{url}, Logger: w.Logger(), Now: w.Now})
	f.Check()
	n = f.Topology().Nodes[0]
	require.Eventually(t, func() bool { return n.Facts() != nil }, 10*time.Second, time.Millisecond)
	return w, n, w.Said()
}

func TestFactsSayWhetherKeysSurvive(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	w, n, said := openExamined(t, s.URL())
	require.Equal(t, "level=WARN msg=\"the node may evict keys, and with them what was counted: set its maxmemory-policy to noeviction\" "+
		"node="+s.Addr+" maxmemory=104857600 maxmemory-policy=allkeys-lru\n", said)
	require.Empty(t, examined(t, w, n), "nothing has changed")

	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.Do("SET", "a", "1")
	s.Do("SAVE")
	require.Empty(t, examined(t, w, n))
	f := *n.Facts()
	require.Positive(t, f.Memory)
	f.Memory = 0
	require.Equal(t, "rdb", f.Saves)
	require.Equal(t, int64(1), f.Keys)
	require.False(t, f.Evicts)
	s.Do("CONFIG", "SET", "appendonly", "yes")
	examined(t, w, n)
	require.Equal(t, "aof", n.Facts().Saves)
	s.Do("CONFIG", "SET", "maxmemory", "1mb")
	require.Contains(t, examined(t, w, n), `level=WARN msg="the node's memory is nearly full" node=`+s.Addr+" used=")
	s.Do("CONFIG", "SET", "maxmemory", "0")
	w.Wait(time.Minute)
	require.Contains(t, examined(t, w, n), `level=INFO msg="the node's memory is no longer nearly full"`)
}

func TestANodeThatComesBackWithoutItsKeysIsLogged(t *testing.T) {
	s := redistest.Start(t, "--save", "")
	fill := func() {
		for i := range 10 {
			s.Do("SET", i, "1")
		}
	}
	fill()
	w, n, _ := openExamined(t, s.URL())
	s.Kill()
	s.Run()
	require.Contains(t, examined(t, w, n), "the node has come back without its keys: what it had counted is lost, so these limits begin at 0\" "+
		"node="+s.Addr+" keys=0 before=10\n")
	fill()
	examined(t, w, n)
	s.Do("SAVE")
	s.Kill()
	s.Run()
	require.NotContains(t, examined(t, w, n), "without its keys")
	require.Equal(t, int64(10), n.Facts().Keys)
}

// A node whose user may not run INFO has no facts, and is used all the same.
func TestANodeMayKeepItsFacts(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "shy", "on", "nopass", "~*", "&*", "+@all", "-info")
	n := openTest(t, Config{Backends: []string{"redis://shy:x@" + s.Addr}}).Topology().Nodes[0]
	n.examine(t.Context())
	require.Nil(t, n.Facts())
	require.NoError(t, n.probe(t.Context()))
}

// Whether a node saves its keys is known when it has saved them, or has had time for it.
func TestFactsAreReadFromInfo(t *testing.T) {
	for text, want := range map[string]string{
		"aof_enabled:1\r\n":               "aof",
		"rdb_saves:1\r\n":                 "rdb",
		"rdb_last_load_keys_loaded:5\r\n": "rdb",
		"rdb_changes_since_last_save:1\r\nuptime_in_seconds:7201\r\n":             "no",
		"rdb_changes_since_last_save:1\r\nuptime_in_seconds:7200\r\n":             "",
		"rdb_changes_since_last_save:0\r\nuptime_in_seconds:7201\r\n":             "",
		"# Persistence\r\n\r\nrdb_saves:x\r\ndb\r\ndb0\r\ndb1:avg=3\r\ndb:keys=1": "",
	} {
		f := parseFacts(text)
		require.Equal(t, want, f.Saves, text)
		require.Zero(t, f.Keys, text)
	}
	require.Equal(t, int64(12), parseFacts("db0:keys=5,expires=0\r\ndb15:keys=7,expires=7,avg_ttl=3\r\n").Keys)

	w := logged.New()
	n := openTest(t, Config{Backends: []string{"redis://127.0.0.1:1"}, Logger: w.Logger(), Now: w.Now}).Topology().Nodes[0]
	n.compare(nil, &facts{NodeFacts: engine.NodeFacts{Saves: "no"}})
	require.Equal(t, "level=INFO msg=\"the node saves nothing: after a restart its limits begin at 0\" node=127.0.0.1:1 for=2h0m0s\n", w.Said())
}

// eventuallySaid returns what is logged next.
func eventuallySaid(t *testing.T, w *logged.World) (said string) {
	t.Helper()
	require.Eventually(t, func() bool { said += w.Said(); return said != "" }, 10*time.Second, time.Millisecond)
	return said
}

// A node that cannot be reached is logged before a request needs it.
func TestANodeThatIsAwayAtTheStartIsLogged(t *testing.T) {
	w := logged.New()
	addr := "127.0.0.1:1"
	openTest(t, Config{Backends: []string{"redis://" + addr}, Logger: w.Logger(), Now: w.Now}).Check()
	require.Equal(t, `level=WARN msg="node is down" node=127.0.0.1:1 why="connection failed: connection refused"`+"\n", eventuallySaid(t, w))
}
