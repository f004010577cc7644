package redis

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/library"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// chargeAll sends a pipeline of requests that need different functions, and requires that the nodes
// answer all of them. Each call uses one more unit of the key's limit.
func chargeAll(t *testing.T, e *Engine, used int64) {
	t.Helper()
	p := &engine.Pipeline{Requests: []engine.Request{
		charge("k", 1000), conformance.Inspect("k"), conformance.Reset("other"), charge("other", 5),
		splitRequest("split", limit.Slide, 1, 3, limit.Window{Limit: 1000, Length: 600_000}),
	}}
	e.Do(p)
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err)
	}
	require.Equal(t, 1000-used, p.Results[0].Remaining)
	require.Len(t, p.Results[1].States, 1)
	require.Equal(t, used, p.Results[1].States[0].Used)
	require.EqualValues(t, 4, p.Results[3].Remaining)
	require.GreaterOrEqual(t, p.Results[4].Remaining, int64(0))
}

// A node gets the library with its first call, and again whenever it has lost it. No request fails or
// is charged twice meanwhile.
func TestLibraryIsLoadedWhereItIsMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	e := openAt(t, nil, s)
	used := int64(0)
	for range 5 {
		used++
		chargeAll(t, e, used)
		s.Do("FUNCTION", "FLUSH")
	}
	loads := func() int {
		m := regexp.MustCompile(`cmdstat_function\|load:calls=(\d+)`).FindStringSubmatch(s.Do("INFO", "commandstats"))
		require.NotNil(t, m)
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		return n
	}
	require.GreaterOrEqual(t, loads(), 5)
	require.LessOrEqual(t, loads(), 10, "by each of two batches at once, at most")
	s.Kill()
	s.Run()
	ready(t, e, "k")
	chargeAll(t, e, used+1)
	require.LessOrEqual(t, loads(), 2)
}

// Several proxies may load the library at once, and the functions of another version remain.
func TestProxiesShareANode(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	other := strings.ReplaceAll(lua.Library.Source, lua.Library.Name[len("rlproxy_"):], "000000000000")
	s.Do("FUNCTION", "LOAD", other)
	engines := make([]*Engine, 8)
	for i := range engines {
		engines[i] = openAt(t, nil, s)
	}
	for range 3 {
		var done sync.WaitGroup
		for i, e := range engines {
			done.Add(1)
			go func() { // for one request
				defer done.Done()
				if res := conformance.Ask(e, charge(fmt.Sprint("k", i), 10)); res.Err != nil {
					t.Error(res.Err)
				}
			}()
		}
		done.Wait()
		list := s.Do("FUNCTION", "LIST")
		require.Contains(t, list, lua.Library.Name)
		require.Contains(t, list, "rlproxy_000000000000")
		s.Do("FUNCTION", "DELETE", lua.Library.Name)
	}
}

// While a node refuses functions, the library runs as a script.
func TestNodesThatRefuseFunctions(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string][]string{
		"FCALL": {"-fcall"}, "FUNCTION": {"-function"}, "both": {"-fcall", "-function"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rules, back := []any{"ACL", "SETUSER", "default"}, []any{"ACL", "SETUSER", "default"}
			for _, rule := range refuse {
				rules, back = append(rules, rule), append(back, "+"+rule[1:])
			}
			s.Do(rules...)
			e := openAt(t, nil, s)
			used := int64(0)
			for range 3 {
				used++
				chargeAll(t, e, used)
				s.Do("SCRIPT", "FLUSH")
			}
			require.Contains(t, s.Do("INFO", "commandstats"), "cmdstat_evalsha:")
			s.Do(back...)
			require.Eventually(t, func() bool { // a loan that was under way may have loaded the script again
				s.Do("SCRIPT", "FLUSH")
				chargeAll(t, e, used+1)
				s.Do("CONFIG", "RESETSTAT")
				chargeAll(t, e, used+2)
				used += 2
				return !strings.Contains(s.Do("INFO", "commandstats"), "cmdstat_evalsha:")
			}, 10*time.Second, time.Millisecond)
			require.Positive(t, functionCalls(t, s))
		})
	}
}

// If a node lacks what the library needs, each answer names the reason, and the library is sent at
// most once a second. The node is used again without intervention.
func TestNodesThatCannotRunTheLibrary(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string][]any{
		"all scripting": {"-@scripting"}, "no script": {"-fcall", "-evalsha"}, "no SCRIPT LOAD": {"-fcall", "-script"}, "no loads": {"-function", "-script"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			e := openAt(t, nil, s)
			s.Do(append([]any{"ACL", "SETUSER", "default"}, refuse...)...)
			began := time.Now()
			for range 100 {
				err := conformance.Ask(e, charge("k", 10)).Err
				require.ErrorContains(t, err, "requires Redis 7 or later and permission to use FCALL and FUNCTION LOAD, or EVALSHA and SCRIPT LOAD: NOPERM")
			}
			loads := 0
			for _, m := range regexp.MustCompile(`cmdstat_(?:script|function)\|load:calls=(\d+),.*rejected_calls=(\d+)`).FindAllStringSubmatch(s.Do("INFO", "commandstats"), -1) {
				for _, n := range m[1:] {
					calls, err := strconv.Atoi(n)
					require.NoError(t, err)
					loads += calls
				}
			}
			require.Positive(t, loads)
			require.LessOrEqual(t, loads, library.Tries*(1+int(time.Since(began)/time.Second)))
			require.Contains(t, info(t, e, "node0"), "state=refuses")
			s.Do("ACL", "SETUSER", "default", "+@all")
			ready(t, e, "k")
			chargeAll(t, e, 1)
			require.Contains(t, info(t, e, "node0"), "state=up")
		})
	}
}

// Redis 6 has no functions, and its Lua does not accept "#!".
func TestRedis6IsToldApart(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]string{
		"Redis 6":                           "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#' \r\n",
		"a server that forgets all scripts": "$40\r\n0123456789012345678901234567890123456789\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := startFake(t)
			loads := atomic.Int64{}
			n.set(func(args []string) reply {
				switch args[0] {
				case "fcall", "function":
					return reply{text: fmt.Sprintf("-ERR unknown command `%s`, with args beginning with: `%s`, \r\n", args[0], args[1])}
				case "script":
					loads.Add(1)
					return reply{text: load}
				}
				return n.well(args)
			})
			e := openAlways(t, 5*time.Second, "redis://"+n.addr)
			began := time.Now()
			for range 20 {
				err := conformance.Ask(e, charge("k", 10)).Err
				require.ErrorContains(t, err, "requires Redis 7 or later")
			}
			require.Positive(t, loads.Load())
			require.LessOrEqual(t, loads.Load(), int64(library.Tries*(1+int(time.Since(began)/time.Second))))
		})
	}
}

// Renamed commands are refused too. The script gives the same answers as the functions.
func TestConformanceOfTheScript(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, clock func() int64) engine.Engine {
		return withCalendar(openAt(t, clock, redistest.Start(t, "--rename-command", "FCALL", "", "--rename-command", "FUNCTION", "")))
	}
	conformance.Run(t, open, 2000)
}

// A key that admitted 1,000,000 units within 60 s, something in every ms, is one log
// of 60,000 entries: its memory follows the ms, not the units.
func TestFullLogIsSmall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	began := time.Now().Add(100 * 365 * 24 * time.Hour).UnixMilli()
	now := began
	const most, window, together = 1_000_000, 60_000, 1000
	conformance.Ask(openAt(t, nil, s), charge("k", 1)) // loads the library
	admitted := int64(0)
	ask := func(pipe redis.Pipeliner, cost int64) (*wire.Call, *redis.Cmd) {
		c, r := new(wire.Call), conformance.Slide("tenant:0000000042", most, window, cost)
		c.Add(&r, 0)
		return c, pipe.Do(t.Context(), c.Args(strconv.FormatInt(now, 10), false, false)...)
	}
	granted := func(c *wire.Call, cmd *redis.Cmd) int64 {
		reply, err := cmd.Text()
		require.NoError(t, err)
		answers, _, err := c.Decode(reply)
		require.NoError(t, err)
		return answers[0].Granted
	}
	for now < began+window {
		pipe := s.Client.Pipeline()
		var calls []*wire.Call
		var cmds []*redis.Cmd
		for range together {
			cost := most*(now-began+1)/window - admitted
			c, cmd := ask(pipe, cost)
			calls, cmds, admitted = append(calls, c), append(cmds, cmd), admitted+cost
			now++
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
		for i := range calls {
			require.EqualValues(t, 1, granted(calls[i], cmds[i]))
		}
	}
	require.EqualValues(t, most, admitted)
	pipe := s.Client.Pipeline()
	c, cmd := ask(pipe, 1)
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	require.Zero(t, granted(c, cmd), "the log is full")
	bytes := s.Client.MemoryUsage(t.Context(), "rl:{tenant:0000000042}").Val()
	t.Logf("%d bytes", bytes)
	require.Positive(t, bytes)
	require.LessOrEqual(t, bytes, int64(1_500_000))
}
