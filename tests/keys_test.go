package tests

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// page adds the keys that RL.SCAN finds from a cursor on to found, and returns the next cursor. It asks again while a node is away.
func (c *conn) page(t *testing.T, found map[string]bool, cursor string, options ...any) (next string) {
	t.Helper()
	eventually(t, "an answer to RL.SCAN", func() bool {
		reply := c.do(t, append([]any{"RL.SCAN", cursor}, options...)...)
		page, ok := reply.([]any)
		if !ok {
			require.Contains(t, fmt.Sprint(reply), "UNAVAILABLE")
			return false
		}
		next = page[0].(string)
		for _, key := range page[1].([]any) {
			found[key.(string)] = true
		}
		return true
	})
	return next
}

// scan lists all keys that RL.SCAN finds with some options, each once, in order.
func (c *conn) scan(t *testing.T, options ...any) []string {
	t.Helper()
	found := map[string]bool{}
	for cursor := c.page(t, found, "0", options...); cursor != "0"; {
		cursor = c.page(t, found, cursor, options...)
	}
	return slices.Collect(maps.Keys(found))
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
		c.decide(t, "RL.SLIDE and:2 5 1h SHADOW") // it counts once
		c.decide(t, "RL.CHECK plan k")
		if len(nodes) == 1 { // a record of another version
			require.NoError(t, nodes[0].Client.Set(t.Context(), "rl:{other}", "\xff\x00\x00", time.Hour).Err())
			want = append(want, "other")
		}
		require.ElementsMatch(t, want, c.scan(t))
		require.ElementsMatch(t, want, c.scan(t, "COUNT", 3))
		matching := c.scan(t, "MATCH", "user:?", "COUNT", 1000)
		require.Len(t, matching, 10)

		shop := dial(t, p.addr)
		require.Equal(t, status("OK"), shop.do(t, "AUTH", "shop", "hush"))
		require.Len(t, shop.scan(t, "COUNT", 7), 40, "those of its patterns")
		require.EqualValues(t, 30, shop.do(t, "RL.RESETMATCH", "*[0-9][0-9]"), "those of its patterns")
		require.EqualValues(t, 1, c.do(t, "RL.RESETMATCH", "{a}%*"))
		require.EqualValues(t, len(want)-31, c.do(t, "RL.RESETMATCH", "*"))
		require.EqualValues(t, 0, c.do(t, "RL.RESETMATCH", "*"))
		eventually(t, "what shards of the split key leave", func() bool { return len(c.scan(t)) == 0 })
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

// others are requests about keys that come and go, one after the other, while something else is done.
type others struct {
	mu    sync.Mutex
	waits []time.Duration // guarded by mu
}

// askOthers asks until the end of the test.
func askOthers(t *testing.T, addr string) *others {
	o, c, stop, asking := &others{}, dial(t, addr), make(chan struct{}), sync.WaitGroup{}
	asking.Go(func() { // until stop is closed
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			sent := time.Now()
			_ = c.do(t, "RL.SLIDE", fmt.Sprint("goes:", i), 5, "1h")
			wait := time.Since(sent)
			o.mu.Lock()
			o.waits = append(o.waits, wait)
			o.mu.Unlock()
			_ = c.do(t, "RL.RESET", fmt.Sprint("goes:", i-5))
		}
	})
	t.Cleanup(func() { close(stop); asking.Wait() })
	return o
}

// lap says how long requests have waited since the last lap.
func (o *others) lap() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.waits)
	n, text := len(o.waits), "-"
	if n > 0 {
		over := n - sort.Search(n, func(i int) bool { return o.waits[i] > 5*time.Millisecond })
		text = fmt.Sprintf("%v at most, 999 of 1000 %v, half %v; %d of %d over 5 ms", o.waits[n-1], o.waits[n*999/1000], o.waits[n/2], over, n)
	}
	o.waits = o.waits[:0]
	return text
}

// TestManyKeysAreListedAndResetWhileTheyChange does so with KEYS keys on three nodes, of which most change. It says how long
// others waited for answers of the same proxy, and of another one with a node of its own at the same time: the machine is as busy
// for both, so what they differ by is due to rlproxy.
func TestManyKeysAreListedAndResetWhileTheyChange(t *testing.T) {
	t.Parallel()
	count := 5000
	if text := os.Getenv("KEYS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "KEYS")
		count = n
	}
	p, apart := startProxy(t, backends(startNodes(t, 3)...)...), startProxy(t, backends(startNode(t))...)
	c := dial(t, p.addr)
	for from := 0; from < count; from += 1000 {
		var lines [][]any
		for i := range 1000 {
			lines = append(lines, words(fmt.Sprintf("RL.SLIDE stays:%d 5 1h", from+i)))
		}
		c.pipeline(t, lines...)
	}
	patient := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ReadTimeout: time.Hour})
	t.Cleanup(func() { _ = patient.Close() })
	here, there := askOthers(t, p.addr), askOthers(t, apart.addr)
	while := func(what string, do func()) {
		here.lap()
		there.lap()
		began := time.Now()
		do()
		t.Logf("%s: %v\nothers waited %s\nelsewhere     %s", what, time.Since(began), here.lap(), there.lap())
	}
	while("nothing", func() {
		for range count / 100 {
			c.do(t, "RL.SLIDE", "k", 5, "1h")
		}
	})
	while(fmt.Sprint(count, " keys listed"), func() {
		require.Len(t, c.scan(t, "MATCH", "stays:*", "COUNT", 1000), count)
	})
	while(fmt.Sprint(count, " keys reset"), func() {
		reset, err := patient.Do(t.Context(), "RL.RESETMATCH", "stays:*").Int()
		require.NoError(t, err)
		require.Equal(t, count, reset)
	})
	require.Empty(t, c.scan(t, "MATCH", "stays:*"))
}

// TestAScanGoesOnAfterAFailover ends a master in the middle of a scan. Its successor lists the keys in another order.
func TestAScanGoesOnAfterAFailover(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, url string, master, replica *redistest.Server) {
		t.Helper()
		p := startProxy(t, "--backend", url, "--backend-timeout", "10000", "--wait-replicas", "1", "10000")
		c := dial(t, p.addr)
		want := []string{}
		for i := range 300 {
			want = append(want, fmt.Sprint("k", i))
			eventually(t, "the node's decision", func() bool { return c.decide(t, "RL.SLIDE "+want[i]+" 5 1h").remaining >= 0 })
		}
		found, cursor := map[string]bool{}, "0"
		for len(found) < 150 {
			cursor = c.page(t, found, cursor, "COUNT", 7)
		}
		master.Kill()
		eventually(t, "the replica to take over", func() bool {
			role, err := replica.Ask("ROLE") // its connections are closed when its role changes
			return err == nil && strings.Contains(role, "master")
		})
		for cursor != "0" {
			cursor = c.page(t, found, cursor, "COUNT", 7)
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(found)))
		p.stop(t)
	}
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		g := redistest.StartGuarded(t)
		run(t, g.URL(), g.Master, g.Replica)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		const masters, middle = 3, 8192 // the slot in the middle, where a scan is when it has found half of the keys
		c := redistest.StartReplicated(t, masters)
		i := c.Master(middle)
		run(t, c.URL(), c.Nodes[i], c.Nodes[i+masters])
	})
}

// TestAScanEndsWhenSlotsMove moves a slot from the last node, which a scan has not visited, to the first one, which it has.
func TestAScanEndsWhenSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, nil)
	p := startProxy(t, "--backend", cluster.URL(), "--backend-timeout", "10000")
	c := dial(t, p.addr)
	for i := range 100 {
		line := fmt.Sprintf("RL.SLIDE k%d 5 1h", i)
		eventually(t, "the node's decision", func() bool { return c.decide(t, line).remaining >= 0 })
	}
	cursor := c.page(t, map[string]bool{}, "0", "COUNT", 10)
	from := cluster.Master(16383)
	cluster.Move(16383, from, 1-from, func() {})
	eventually(t, "the proxy to know", func() bool {
		reply := c.do(t, "RL.SCAN", cursor)
		return reply == errReply("ERR slots of the cluster have moved since the scan began: begin again")
	})
	require.Len(t, c.scan(t), 100)
	p.stop(t)
}
