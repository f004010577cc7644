package engine

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// askAsync answers a pipeline of one command elsewhere.
func askAsync(t testing.TB, e *Redis, line string) <-chan string {
	done := make(chan string, 1)
	go func() { done <- forwardAll(t, e, 2, line)[0] }() // ends with the answer, or the command's timeout
	return done
}

// A node that hangs holds up neither the other nodes' replies nor decisions.
func TestForwardSlowNode(t *testing.T) {
	servers := startServers(t, 2)
	e := openForward(t, func(c *RedisConfig) { c.Timeout = 100 * time.Millisecond }, servers...)
	keys := keysOn(e)
	require.Equal(t, []string{"+OK\r\n", ":1\r\n"}, forwardAll(t, e, 2, fmt.Sprintf("SET %s x", keys[1]), fmt.Sprintf("INCR %s", keys[0])))

	servers[0].Pause()
	slow := askAsync(t, e, fmt.Sprintf("INCR %s", keys[0]))
	for range 100 {
		require.Equal(t, "$1\r\nx\r\n", forwardAll(t, e, 2, fmt.Sprintf("GET %s", keys[1]))[0])
	}
	var p Pipeline
	r := p.Add()
	r.Op, r.Key, r.N, r.Cost, r.Fail = OpSlide, []byte(keys[0].(string)), 1, 1, PolicyOpen
	r.Windows[0] = Window{10, 60_000}
	began := time.Now()
	e.Do(&p)
	require.Less(t, time.Since(began), 5*time.Second, "a decision does not wait for the commands before it")
	require.Equal(t, int64(-1), p.Results[0].Remaining, "its policy answers")
	select {
	case reply := <-slow:
		require.Fail(t, "answered by a node that hangs", reply)
	default:
	}
	servers[0].Resume()
	require.Equal(t, ":2\r\n", <-slow)
}

// A reply that does not come is an error, and the command is not sent again.
func TestForwardLostReply(t *testing.T) {
	s := redistest.Start(t)
	e := openForward(t, func(c *RedisConfig) { c.ForwardTimeout = time.Second }, s)
	require.Equal(t, ":1\r\n", forwardAll(t, e, 2, "INCR n")[0])
	s.Pause()
	require.Equal(t, "UNAVAILABLE "+s.Addr+": no answer in time", forwardAll(t, e, 2, "INCR n")[0])
	s.Resume()
	require.Equal(t, "$1\r\n2\r\n", forwardAll(t, e, 2, "GET n")[0], "it ran, once")

	s.Kill()
	require.Contains(t, forwardAll(t, e, 2, "INCR n")[0], "UNAVAILABLE "+s.Addr+": connection failed")
	s.Run()
	require.Eventually(t, func() bool { return forwardAll(t, e, 2, "GET n")[0] == "$-1\r\n" }, 20*time.Second, time.Millisecond)
}

// A reply of 100 MB passes with one copy of it in memory. One that is larger than
// allowed is an error, and the connection goes on.
func TestForwardLargeReply(t *testing.T) {
	const size = 100 << 20
	s := redistest.Start(t)
	e := openForward(t, nil, s)
	for _, proto := range []int{2, 3} {
		require.Equal(t, fmt.Sprintf(":%d\r\n", size), forwardAll(t, e, proto, fmt.Sprintf("SETRANGE big %d x", size-1))[0])
		var p Pipeline
		p.ordinary(t, proto, "GET big")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e.Do(&p)
		runtime.ReadMemStats(&after)
		require.NoError(t, p.Results[0].Err)
		require.Len(t, p.Results[0].Raw, size+len("$104857600\r\n\r\n"))
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size*11/10))
		require.Greater(t, e.replies.held.Load(), int64(size-1))
		p.Reset()
		require.Zero(t, e.replies.held.Load())
	}

	small := openForward(t, func(c *RedisConfig) { c.ReplyLimit = 1 << 20 }, s)
	s.Client.SetRange(t.Context(), "half", 600<<10, "x")
	s.Client.RPush(t.Context(), "list", strings.Split(strings.Repeat("element ", 200_000), " "))
	got := forwardAll(t, small, 2, "GET big", "GET half", "GET half", "LRANGE list 0 -1", "EXISTS big")
	require.Equal(t, errReplies.Error(), got[0])
	require.Len(t, got[1], 600<<10+1+len("$614401\r\n\r\n"))
	require.Equal(t, errReplies.Error(), got[2])
	require.Equal(t, errReplies.Error(), got[3])
	require.Equal(t, ":1\r\n", got[4])
}

// Decisions and ordinary commands of one pipeline are answered in their places, and
// who reads the state of a decision before it sees it.
func TestForwardMixesWithDecisions(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		e := openForward(t, nil, startServers(t, nodes)...)
		for round := range 20 {
			var p Pipeline
			slide := func() {
				r := p.Add()
				r.Op, r.Key, r.N, r.Cost = OpSlide, fmt.Appendf(nil, "u%d", round), 1, 1
				r.Windows[0] = Window{2, 60_000}
			}
			exists := fmt.Sprintf("EXISTS rl:{u%d}", round)
			p.ordinary(t, 2, exists)
			slide()
			p.ordinary(t, 2, exists)
			p.ordinary(t, 2, "SET a 1")
			slide()
			p.ordinary(t, 2, "INCR a")
			slide()
			p.ordinary(t, 2, "NOPE")
			p.ordinary(t, 2, "GET a")
			e.Do(&p)
			raw := func(i int) string { return string(p.Results[i].Raw) }
			require.Equal(t, ":0\r\n", raw(0))
			require.True(t, p.Results[1].Allowed)
			require.Equal(t, ":1\r\n", raw(2))
			require.Equal(t, "+OK\r\n", raw(3))
			require.True(t, p.Results[4].Allowed)
			require.Equal(t, ":2\r\n", raw(5))
			require.False(t, p.Results[6].Allowed)
			require.ErrorIs(t, p.Results[7].Err, ErrUnknownCommand)
			require.Equal(t, "$1\r\n2\r\n", raw(8))
		}
	}
}

// In a cluster, commands follow MOVED and ASK, and are split by slot.
func TestForwardCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	e := openForward(t, func(config *RedisConfig) { config.Backends = []string{c.URL()} })
	require.Eventually(t, func() bool { return forwardAll(t, e, 2, "MSET a 0 b 0 c 0")[0] == "+OK\r\n" }, 20*time.Second, time.Millisecond)
	require.Equal(t, []string{"+OK\r\n", "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$1\r\n2\r\n", ":3\r\n"},
		forwardAll(t, e, 2, "MSET a 1 b 2 c 3", "MGET a none c b", "DEL a b c"))
	require.Equal(t, errCrossSlot.Error(), forwardAll(t, e, 2, "RENAME a b")[0])

	// Slot 15495 is that of a, and moves from the third node to the first.
	const slot = 15495
	from, to := c.Nodes[2], c.Nodes[0]
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	require.Equal(t, "+OK\r\n", forwardAll(t, e, 2, "SET {a}here 1")[0])
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	require.Equal(t, []string{"+OK\r\n", "$1\r\n2\r\n", "$1\r\n1\r\n"}, forwardAll(t, e, 2, "SET {a}there 2", "GET {a}there", "GET {a}here"), "by ASK")
	from.Do("MIGRATE", "127.0.0.1", to.Port, "{a}here", 0, 5000)
	for _, n := range c.Nodes {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	require.Equal(t, []string{"$1\r\n1\r\n", ":3\r\n"}, forwardAll(t, e, 3, "GET {a}here", "INCR {a}there"), "by MOVED")
}

// A warm pipeline allocates little for each command.
func TestForwardAllocations(t *testing.T) {
	const commands = 64
	e := openForward(t, nil, redistest.Start(t))
	var p Pipeline
	args := commandLine(t, "GET nothing")
	run := func() {
		for range commands {
			r := p.Add()
			r.Op, r.Args = OpForward, args
		}
		e.Do(&p)
		p.Reset()
	}
	run()
	require.Equal(t, "$-1\r\n", forwardAll(t, e, 2, "GET nothing")[0])
	perCommand := testing.AllocsPerRun(200, run) / commands
	t.Logf("%.2f allocations a command", perCommand)
	require.Less(t, perCommand, 1.0)
}
