package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// start returns a registry on a new node.
func start(t testing.TB, config ...string) (*redistest.Server, Registry, *backend.Fleet) {
	t.Helper()
	s := redistest.Start(t, config...)
	fleet, err := backend.Open(backend.Config{Backends: []string{s.URL()}, Timeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return s, Registry{Node: fleet.Topology().Nodes[0], Key: "rl:{%test}", Bytes: 100, Limit: 5 * time.Second}, fleet
}

func put(t testing.TB, r Registry, name, value string, ttl time.Duration) Index {
	t.Helper()
	x, err := r.Put(context.Background(), name, []byte(value), ttl)
	require.NoError(t, err)
	return x
}

func names(x Index) []string { return slices.Sorted(maps.Keys(x.Names)) }

func values(r Registry, names ...string) map[string]string {
	found := make(map[string]string)
	r.Values(context.Background(), names, func(name string, value []byte, err error) { found[name] = fmt.Sprint(string(value), err) })
	return found
}

func TestValuesAreListedUntilTheyEnd(t *testing.T) {
	s, r, _ := start(t)
	x := put(t, r, "a", "1", time.Minute)
	require.Equal(t, []string{"a"}, names(x))
	require.WithinDuration(t, time.Now().Add(time.Minute), x.Names["a"], time.Second)
	require.Less(t, x.Offset.Abs(), x.Latency+time.Millisecond, "the clock of the node is that of this machine")
	put(t, r, "b", "2", 50*time.Millisecond)
	put(t, r, "a", "3", time.Minute)
	x, err := r.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, x.Names, "a")
	require.Positive(t, x.Latency)
	require.Equal(t, "3<nil>", values(r, "a", "none")["a"])
	require.Equal(t, "<nil>", values(r, "a", "none")["none"])
	proxytest.Eventually(t, "the end of a value", func() bool {
		x, err := r.List(t.Context())
		return err == nil && slices.Equal(names(x), []string{"a"})
	})
	require.Equal(t, []string{"a", "c"}, names(put(t, r, "c", "3", time.Minute)), "a name that has ended is dropped")
	for _, left := range [][]string{{"a"}, {"a"}, {}} {
		if len(left) == 0 {
			require.NoError(t, r.Remove(t.Context(), "a"))
		}
		require.NoError(t, r.Remove(t.Context(), "c"), "also if it was removed before")
		x, err = r.List(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, left, names(x))
	}
	proxytest.Eventually(t, "nothing to be stored", func() bool { return s.Client.DBSize(t.Context()).Val() == 0 })
}

// Keep writes when half of the time has passed, so that nodes seldom have anything to persist and replicate.
func TestKeepSeldomWrites(t *testing.T) {
	_, r, _ := start(t)
	keep := func(value string, ttl time.Duration) string {
		x, err := r.Keep(t.Context(), "a", []byte(value), ttl)
		require.NoError(t, err)
		require.Contains(t, x.Names, "a")
		return values(r, "a")["a"]
	}
	require.Equal(t, "1<nil>", keep("1", 30*time.Second))
	require.Equal(t, "1<nil>", keep("2", 30*time.Second))
	put(t, r, "a", "3", 10*time.Second)
	require.Equal(t, "4<nil>", keep("4", 30*time.Second), "less than half of that is left")
}

// What is read is bounded, whatever is stored.
func TestValuesAreReadUpToAByteMoreThanTheyMayHave(t *testing.T) {
	s, r, _ := start(t)
	s.Do("SET", r.Key+"a", strings.Repeat("x", 1<<20))
	require.Len(t, values(r, "a")["a"], 101+len("<nil>"))
	s.Do("LPUSH", r.Key+"b", "x")
	require.Contains(t, values(r, "b")["b"], "WRONGTYPE")
}

// A name in a full index stays. But the first of another group takes the place of one of the largest group.
func TestIndexIsBounded(t *testing.T) {
	_, r, _ := start(t)
	for i := range MaxNames {
		group := "x"
		if i >= MaxNames-10 {
			group = "y"
		}
		put(t, r, fmt.Sprintf("%03d %s", i, group), "v", time.Minute+time.Duration(i-MaxNames)*time.Second/10)
	}
	for _, name := range []string{"new x", "new y"} {
		x, err := r.Put(t.Context(), name, []byte("v"), time.Minute)
		require.ErrorIs(t, err, ErrFull)
		require.True(t, x.Full())
		require.NotContains(t, x.Names, name)
		require.Equal(t, map[string]string{name: "<nil>"}, values(r, name), "nothing was stored")
	}
	x := put(t, r, "000 x", "w", time.Minute)
	require.Len(t, x.Names, MaxNames)
	x = put(t, r, "new z", "v", time.Minute)
	require.Len(t, x.Names, MaxNames)
	require.Contains(t, x.Names, "new z")
	require.NotContains(t, x.Names, "001 x", "of the largest group it would have ended first")
	_, err := r.Put(t.Context(), "newer z", []byte("v"), time.Minute)
	require.ErrorIs(t, err, ErrFull)
	require.NoError(t, r.Remove(t.Context(), "001 x"), "a name that is not there can be removed")
	require.NoError(t, r.Remove(t.Context(), "new z"))
	put(t, r, "new y", "v", time.Minute)
}

// What is not an index counts as an empty one.
func TestDamagedIndexIsReplaced(t *testing.T) {
	s, r, _ := start(t)
	for _, damaged := range []string{
		"", "nonsense", "[", "[]", "7", "null", `{"x":{}}`, `{"x":"y"}`, `{"x":1e300}`, `{"x":-1}`, `["x"]`,
		strings.Repeat("[", 100_000), strings.Repeat("9", 1_000_000),
		fmt.Sprintf(`{"x":%d}`, time.Now().Add(time.Hour).UnixMilli()), // the clock was ahead by an hour
	} {
		s.Do("SET", r.Key, damaged)
		x, err := r.List(t.Context())
		require.NoError(t, err, "%.100q", damaged)
		require.Empty(t, x.Names, "%.100q", damaged)
		require.Equal(t, []string{"a"}, names(put(t, r, "a", "v", time.Minute)), "%.100q", damaged)
	}
	s.Do("DEL", r.Key)
	s.Do("LPUSH", r.Key, "x")
	x, err := r.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, x.Names)
	require.Equal(t, []string{"a"}, names(put(t, r, "a", "v", time.Minute)))
}

func TestValueIsReplacedIfItsFirstLineIsTheOneThatWasRead(t *testing.T) {
	s, r, _ := start(t)
	replace := func(line, value string) bool {
		done, err := r.Replace(context.Background(), line, []byte(value), time.Hour)
		require.NoError(t, err)
		return done
	}
	require.False(t, replace("1\n", "x"), "nothing is stored")
	require.True(t, replace("", "1\nx"))
	require.False(t, replace("", "2\nx"))
	require.False(t, replace("2\n", "3\nx"))
	s.Do("PERSIST", r.Key)
	require.True(t, replace("1\n", ""), "only the time to live is renewed")
	require.InDelta(t, time.Hour.Minutes(), s.Client.PTTL(t.Context(), r.Key).Val().Minutes(), 1)
	require.True(t, replace("1\n", "2\n"+strings.Repeat("y", 1000)))
	head, err := r.Read(t.Context(), MaxLine)
	require.NoError(t, err)
	require.Len(t, head, MaxLine)
	value, err := r.Read(t.Context(), r.Bytes+1)
	require.NoError(t, err)
	require.Len(t, value, int(r.Bytes)+1)
	require.EqualValues(t, 1, s.Client.DBSize(t.Context()).Val(), "there is no index")
}

// The error says whether the node refuses, or what it was not asked for.
func TestErrorsSayWhatTheNodeDoes(t *testing.T) {
	s, r, fleet := start(t)
	s.Do("ACL", "SETUSER", "default", "-eval")
	_, err := r.List(t.Context())
	require.ErrorContains(t, err, "NOPERM")
	require.True(t, Refused(fleet, err))
	_, err = r.Put(t.Context(), "a", []byte("v"), time.Minute)
	require.True(t, Refused(fleet, err))
	require.False(t, Refused(fleet, nil))
	require.False(t, Refused(fleet, errors.New("no answer")))
	s.Do("ACL", "SETUSER", "default", "+@all")
	s.Kill()
	fleet.Check()
	proxytest.Eventually(t, "the node to be down", r.Node.Down)
	_, err = r.List(t.Context())
	require.ErrorAs(t, err, new(Unreachable))
	_, err = r.Put(t.Context(), "a", []byte("v"), time.Minute)
	require.ErrorAs(t, err, new(Unreachable))
	require.Empty(t, values(r, "a"))
}

// A node without free memory stores values: they are small, and needed there too.
func TestFullNodeStoresValues(t *testing.T) {
	s, r, _ := start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	require.ErrorContains(t, s.Client.Set(t.Context(), "k", strings.Repeat("x", 1000), 0).Err(), "OOM")
	require.Len(t, put(t, r, "a", "v", time.Minute).Names, 1)
}

func TestLoopBeginsARoundAfterEachPauseAndWhenItIsWanted(t *testing.T) {
	l, ctx := NewLoop()
	rounds, pause := make(chan struct{}, 9), make(chan time.Duration, 1)
	pause <- time.Millisecond
	l.Go(ctx, func() time.Duration {
		select {
		case d := <-pause:
			return d
		default:
			return time.Hour
		}
	}, func(context.Context) { rounds <- struct{}{} })
	<-rounds
	l.Soon()
	l.Soon()
	<-rounds
	l.Close()
	require.Error(t, ctx.Err())
}

func TestPanicAboutOneNodeLeavesTheOthers(t *testing.T) {
	_, r, _ := start(t)
	var log proxytest.LockedBuffer
	asked := make([]bool, 2)
	Each(slog.New(slog.NewTextHandler(&log, nil)), "asking", []*backend.Node{r.Node, r.Node}, func(i int, _ *backend.Node) {
		if i == 0 {
			panic("no")
		}
		asked[i] = true
	})
	require.Equal(t, []bool{false, true}, asked)
	require.Contains(t, log.String(), "asking "+r.Node.Name())
}

func FuzzParse(f *testing.F) {
	f.Add("1792000000", "5", `{"a":1792000001000}`)
	f.Add("-1", "x", `{}`)
	f.Add("1792000000", "5", `{"a":1e999}`)
	now := time.Unix(1_792_000_000, 0)
	f.Fuzz(func(t *testing.T, seconds, micros, text string) {
		x, err := parse([]any{seconds, micros, text}, now, now.Add(time.Millisecond))
		if err != nil {
			return
		}
		for name, till := range x.Names {
			if len(name) > maxName || till.After(now.Add(time.Millisecond+maxLive)) || len(x.Names) > MaxNames {
				t.Fatalf("%q: %q is listed until %v", text, name, till)
			}
		}
	})
}
