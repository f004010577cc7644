package forward

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// askAsync answers a pipeline of one command elsewhere.
func askAsync(t testing.TB, f *Forwarder, line string) <-chan string {
	done := make(chan string, 1)
	go func() { done <- forwardAll(t, f, 2, line)[0] }() // ends with the answer, or the command's timeout
	return done
}

// A node that hangs does not hold up the other nodes' replies. Decisions go on, too: see
// TestDecisionsDoNotWaitForCommands in package commands.
func TestSlowNode(t *testing.T) {
	servers := startServers(t, 2)
	f := open(t, nil, servers...)
	keys := keysOn(f)
	require.Equal(t, []string{"+OK\r\n", ":1\r\n"}, forwardAll(t, f, 2, fmt.Sprintf("SET %s x", keys[1]), fmt.Sprintf("INCR %s", keys[0])))

	servers[0].Pause()
	slow := askAsync(t, f, fmt.Sprintf("INCR %s", keys[0]))
	for range 100 {
		require.Equal(t, "$1\r\nx\r\n", forwardAll(t, f, 2, fmt.Sprintf("GET %s", keys[1]))[0])
	}
	select {
	case reply := <-slow:
		require.Fail(t, "answered by a node that hangs", reply)
	default:
	}
	servers[0].Resume()
	require.Equal(t, ":2\r\n", <-slow)
}

// A reply that does not come is an error, and the command is not sent again.
func TestLostReply(t *testing.T) {
	s := redistest.Start(t)
	f := open(t, func(c *Config) { c.Timeout = time.Second }, s)
	require.Equal(t, ":1\r\n", forwardAll(t, f, 2, "INCR n")[0])
	s.Pause()
	require.Equal(t, "UNAVAILABLE "+s.Addr+": no answer in time", forwardAll(t, f, 2, "INCR n")[0])
	s.Resume()
	require.Equal(t, "$1\r\n2\r\n", forwardAll(t, f, 2, "GET n")[0], "it ran, once")

	s.Kill()
	require.Contains(t, forwardAll(t, f, 2, "INCR n")[0], "UNAVAILABLE "+s.Addr+": connection failed")
	s.Run()
	require.Eventually(t, func() bool { return forwardAll(t, f, 2, "GET n")[0] == "$-1\r\n" }, 20*time.Second, time.Millisecond)
}

// Whatever a node replies, every command has a result in time, and the process goes on.
func TestNonsense(t *testing.T) {
	sound := open(t, nil, redistest.Start(t))
	require.NoError(t, sound.Join(new(Pipeline), new(Transaction), commandLine(t, "GET a")))
	table := sound.table.table.Load()
	for i, reply := range []string{
		"", "\r\n", "\n", "+\r\n", "-\r\n", "$5\r\nab", "$-7\r\n", "*-3\r\n", "*2\r\n*-1\r\n:1\r\n", "$999999999999999999999\r\n", "$4000000000\r\nx",
		":x\r\n", "!!!\r\n", "-MOVED\r\n", "-MOVED 1 nowhere\r\n", "-ASK x y\r\n", "*1000000000\r\n", ">2\r\n$7\r\nmessage\r\n*0\r\n", "%1\r\n:1\r\n",
		strings.Repeat("*1\r\n", 10_000), "-LOADING\r\n", ":1\r\n:2\r\n:3\r\n", "(\r\n", "=1\r\nx\r\n", "#maybe\r\n", ",nan\r\n", "|1\r\n+a\r\n+b\r\n",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			fleet := openNodes(t, 100*time.Millisecond, babble(t, reply), babble(t, reply))
			f := openOn(t, fleet, Config{Settings: Settings{Timeout: 300 * time.Millisecond}})
			began := time.Now()
			if i%2 == 0 {
				f.table.table.Store(table) // else it asks for one
			}
			for range 3 {
				for _, proto := range []int{2, 3} {
					forwardAll(t, f, proto, "GET a", "MGET a b c d", "DEL a b c d", "DBSIZE", "SORT a STORE b", "NOPE", "INCR a")
				}
			}
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}
