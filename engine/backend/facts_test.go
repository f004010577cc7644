package backend

import (
	"errors"
	"strings"
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
	n.examine(t.Context(), n.health.up)
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
	require.Equal(t, int64(1), n.Facts().LostKeys)
}

// A node that is up again is said to be the same process as before, or another one, and which keys it has.
func TestANodeThatIsUpAgainIsComparedWithBefore(t *testing.T) {
	s := redistest.Start(t, "--save", "")
	for i := range 10 {
		s.Do("SET", i, "1")
	}
	w, n, _ := openExamined(t, s.URL())
	lines := func(last string) (said string) {
		t.Helper()
		require.Eventually(t, func() bool { said += w.Said(); return strings.Contains(said, last) }, 10*time.Second, time.Millisecond, last)
		return said
	}
	fall := func() {
		for n.Health() != Down {
			n.Record(errors.New("cut"))
		}
	}
	fall()
	require.Contains(t, lines("node is up"), `level=INFO msg="node is up" node=`+s.Addr+` after=0s process="the same" keys=10 keys_before=10`+"\n")
	s.Kill()
	fall()
	s.Run()
	said := lines("without its keys")
	up := `level=INFO msg="node is up" node=` + s.Addr + ` after=0s process=another keys=0 keys_before=10` + "\n"
	require.Contains(t, said, up+`level=WARN msg="the node has come back without its keys: what it had counted is lost, so these limits begin at 0" `)
	s.Do("ACL", "SETUSER", "default", "-info")
	fall()
	require.Contains(t, lines("node is up"), `level=INFO msg="node is up" node=`+s.Addr+" after=0s\n", "it does not say")
}

// A node whose user may not run INFO has no facts, and is used all the same.
func TestANodeMayKeepItsFacts(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "shy", "on", "nopass", "~*", "&*", "+@all", "-info")
	n := openTest(t, Config{Backends: []string{"redis://shy:x@" + s.Addr}}).Topology().Nodes[0]
	n.examine(t.Context(), n.health.up)
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

// A node whose clock is set is logged, and also that it is right again.
func TestClocksThatDifferAreLogged(t *testing.T) {
	s := redistest.StartClocked(t)
	w, n, said := openExamined(t, s.URL())
	require.Empty(t, said)
	n.fleet.SetWindows(func() time.Duration { return time.Hour })
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		s.StepClock(ahead)
		said := examined(t, w, n)
		require.Contains(t, said, `level=WARN msg="the clocks of the node and of this machine differ: limits hold by the node's" node=`+s.Addr)
		require.InDelta(t, ahead.Seconds(), n.Facts().Offset.Seconds(), 10)
		require.True(t, n.Facts().ClockOff)
		s.StepClock(0)
		w.Wait(time.Second)
		require.Equal(t, `level=INFO msg="the clocks of the node and of this machine agree again" node=`+s.Addr+" after=1s\n", examined(t, w, n))
		require.False(t, n.Facts().ClockOff)
	}
}

// How far clocks may be apart depends on the shortest window, and on how exactly the difference is known.
func TestClocksMayBeAHundredthOfAWindowApart(t *testing.T) {
	asked := time.Now()
	for _, c := range []struct{ window, offset, took, want time.Duration }{ // want is by how much the clock may be off
		{time.Hour, 0, 0, time.Second},
		{time.Minute, 0, 0, 600 * time.Millisecond},
		{time.Minute, 0, 100 * time.Millisecond, 650 * time.Millisecond},
		{10 * time.Second, 0, 0, 100 * time.Millisecond},
		{time.Millisecond, 0, 0, 10 * time.Millisecond},
	} {
		for _, sign := range []time.Duration{1, -1} {
			for by, off := range map[time.Duration]bool{c.want: false, c.want + 1: true} {
				f := &facts{clock: asked.Add(c.took / 2).Add(sign * by)}
				f.compareClocks(asked, c.took, c.window)
				require.Equal(t, off, f.ClockOff, "%v %v", c, sign*by)
				require.Equal(t, sign*by, f.Offset)
				require.Equal(t, c.took, f.Latency)
			}
		}
	}
	f := new(facts)
	f.compareClocks(asked, 0, time.Hour)
	require.False(t, f.ClockOff, "it does not say its time")
}
