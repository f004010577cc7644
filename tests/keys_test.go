package tests

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// scan lists all keys that RL.SCAN finds with some options, each once, in order. between runs between two requests.
func (c *conn) scan(t *testing.T, between func(), options ...any) []string {
	t.Helper()
	found := map[string]bool{}
	for cursor := "0"; ; between() {
		reply := c.do(t, append([]any{"RL.SCAN", cursor}, options...)...)
		require.IsType(t, []any{}, reply)
		cursor = reply.([]any)[0].(string)
		for _, key := range reply.([]any)[1].([]any) {
			found[key.(string)] = true
		}
		if cursor == "0" {
			break
		}
	}
	keys := []string{}
	for key := range found {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// wherever starts a proxy with each kind of backends.
func wherever(t *testing.T, test func(t *testing.T, p *proxy, nodes []*redistest.Server), args ...string) {
	for name, start := range map[string]func(t *testing.T) ([]string, []*redistest.Server){
		"embedded": func(*testing.T) ([]string, []*redistest.Server) { return nil, nil },
		"list": func(t *testing.T) (args []string, nodes []*redistest.Server) {
			for range 3 {
				n := redistest.Start(t)
				args, nodes = append(args, "--backend", n.URL()), append(nodes, n)
			}
			return args, nodes
		},
		"cluster": func(t *testing.T) ([]string, []*redistest.Server) {
			c := redistest.StartCluster(t, 3, nil)
			return []string{"--backend", c.URL()}, c.Nodes
		},
		"sentinel": func(t *testing.T) ([]string, []*redistest.Server) {
			g := redistest.StartGuarded(t)
			return []string{"--backend", g.URL()}, []*redistest.Server{g.Master}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of, nodes := start(t)
			p := startProxy(t, slices.Concat(of, []string{"--backend-timeout", "10000", "--passthrough-timeout", "20000"}, args)...)
			test(t, p, nodes)
			p.stop(t)
		})
	}
}

// TestKeysWithStateAreListedAndReset asks for keys whose state is stored in every way that there is.
func TestKeysWithStateAreListedAndReset(t *testing.T) {
	t.Parallel()
	users := []string{"--user", "boss", "on", "nopass", "~*", "+@all", "--user", "shop", "on", ">hush", "~user:*", "+@all"}
	wherever(t, func(t *testing.T, p *proxy, nodes []*redistest.Server) {
		c := p.ready(t)
		require.Equal(t, status("OK"), c.do(t, "AUTH", "boss", "any"))
		eventually(t, "the node's decision", func() bool { return c.decide(t, "RL.SLIDE user:0 5 1h COST 0").remaining >= 0 })
		want := []string{}
		for i := range 40 {
			c.decide(t, fmt.Sprintf("RL.SLIDE user:%d 5 1h", i))
			want = append(want, fmt.Sprint("user:", i))
		}
		for key, line := range map[string]string{
			"split": "RL.FIXED split 3000 1h SHARDS 3", "{a}%p1": "RL.COUNTER {a}%p1 5 1h", "once": "RL.SLIDE once 5 1h ONCE a",
			"shadow": "RL.SLIDE shadow 5 1h SHADOW", "held": "RL.RESERVE held 5 1h COST 2 ID a", "slots": "RL.ACQUIRE slots 5 ID a",
			"and:1": "RL.SLIDE and:1 5 1h AND and:2 5 1h", "plan:k": "RL.POLICY SET plan FIXED 5 1h",
		} {
			for range 6 {
				require.NotContains(t, fmt.Sprint(c.do(t, words(line)...)), "ERR", line)
			}
			want = append(want, key)
		}
		want = append(want, "and:2")
		c.decide(t, "RL.CHECK plan k")
		if len(nodes) == 1 { // a record of another version
			require.NoError(t, nodes[0].Client.Set(t.Context(), "rl:{other}", "\xff\x00\x00", time.Hour).Err())
			want = append(want, "other")
		}
		slices.Sort(want)
		pause := func() {}
		require.Equal(t, want, c.scan(t, pause))
		require.Equal(t, want, c.scan(t, pause, "COUNT", 3))
		matching := c.scan(t, pause, "MATCH", "user:?", "COUNT", 1000)
		require.Len(t, matching, 10)

		shop := dial(t, p.addr)
		require.Equal(t, status("OK"), shop.do(t, "AUTH", "shop", "hush"))
		require.Len(t, shop.scan(t, pause, "COUNT", 7), 40, "those of its patterns")
		require.EqualValues(t, 30, shop.do(t, "RL.RESETMATCH", "*[0-9][0-9]"), "those of its patterns")
		require.EqualValues(t, 1, c.do(t, "RL.RESETMATCH", "{a}%*"))
		require.EqualValues(t, len(want)-31, c.do(t, "RL.RESETMATCH", "*"))
		require.EqualValues(t, 0, c.do(t, "RL.RESETMATCH", "*"))
		eventually(t, "what shards of the split key leave", func() bool { return len(c.scan(t, pause)) == 0 })
		c.decide(t, "RL.CHECK plan k") // the policy is no key
	}, users...)
}

// TestWrongWordsOfKeysAreQuoted sends cursors, counts and patterns that are none.
func TestWrongWordsOfKeysAreQuoted(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for line, want := range map[string]string{
			"RL.SCAN x":           "ERR invalid cursor; it was 'x'",
			"RL.SCAN -1":          "ERR invalid cursor; it was '-1'",
			"RL.SCAN 5-z-":        "ERR invalid cursor; it was '5-z-'",
			"RL.SCAN 0 COUNT 0":   "ERR count must be an integer between 1 and 100000; it was '0'",
			"RL.SCAN 0 COUNT":     "ERR syntax error: option COUNT has no value",
			"RL.SCAN 0 TYPE hash": "ERR syntax error: unknown option 'TYPE'; expected MATCH or COUNT",
			"RL.SCAN 0 MATCH [a":  "ERR invalid pattern: a [ has no ]; it was '[a'",
			`RL.RESETMATCH a\`:    `ERR invalid pattern: nothing follows its last \; it was 'a\\'`,
		} {
			require.Equal(t, want, fmt.Sprint(c.do(t, words(line)...)), line)
		}
		require.Equal(t, "ERR invalid pattern: it is empty; it was ''", fmt.Sprint(c.do(t, "RL.RESETMATCH", "")))
	})
}

// TestManyKeysAreListedAndResetWhileTheyChange does so with KEYS keys on three nodes, of which most change.
func TestManyKeysAreListedAndResetWhileTheyChange(t *testing.T) {
	t.Parallel()
	count := 5000
	if text := os.Getenv("KEYS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "KEYS")
		count = n
	}
	nodes := startNodes(t, 3)
	p := startProxy(t, backends(nodes...)...)
	c := dial(t, p.addr)
	for from := 0; from < count; from += 1000 {
		var lines [][]any
		for i := range 1000 {
			lines = append(lines, words(fmt.Sprintf("RL.SLIDE stays:%d 5 1h", from+i)))
		}
		c.pipeline(t, lines...)
	}
	for _, n := range nodes {
		require.NoError(t, n.ConfigSet(t.Context(), "slowlog-log-slower-than", "5000").Err())
		require.NoError(t, n.Client.Do(t.Context(), "SLOWLOG", "RESET").Err())
	}
	stop, others := make(chan struct{}), sync.WaitGroup{}
	longest := time.Duration(0)
	changing := dial(t, p.addr)
	others.Go(func() { // until stop is closed
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			sent := time.Now()
			_ = changing.do(t, "RL.SLIDE", fmt.Sprint("goes:", i), 5, "1h")
			longest = max(longest, time.Since(sent))
			_ = changing.do(t, "RL.RESET", fmt.Sprint("goes:", i-5))
		}
	})
	began := time.Now()
	found := c.scan(t, func() {}, "MATCH", "stays:*", "COUNT", 1000)
	t.Logf("%d keys were listed in %v, while others waited %v at most", len(found), time.Since(began), longest)
	require.Len(t, found, count)
	began = time.Now()
	reset := int64(0)
	for digit := range 10 { // one reply has to come within the patience of tests
		reset += c.do(t, "RL.RESETMATCH", fmt.Sprint("stays:*", digit)).(int64)
	}
	require.EqualValues(t, count, reset)
	close(stop)
	others.Wait()
	t.Logf("%d keys were reset in %v, while others waited %v at most", count, time.Since(began), longest)
	require.Empty(t, c.scan(t, func() {}, "MATCH", "stays:*"))
	for _, n := range nodes {
		slow, err := n.SlowLogGet(t.Context(), 10).Result()
		require.NoError(t, err)
		for _, entry := range slow {
			t.Logf("a node took %v for %.60q", entry.Duration, entry.Args)
		}
	}
}
