package tests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In these tests clients try to use as much memory as they can. The process must stay below a
// bound that follows from maxmemory-clients, and must answer another client in time. The
// tests measure memory and time, so they do not run in parallel with others of this package.

// besidesMB is what operations.md says that a process with a maxmemory of 16mb and a
// maxclients of 2000 needs, in addition to maxmemory-clients.
const besidesMB = 16 + 20 + 96

// greedy is a proxy with a small maxmemory-clients and greedy clients, and another client of it,
// the neighbour.
type greedy struct {
	*proxy
	clientsMB int // maxmemory-clients

	stop chan struct{}
	late chan []time.Duration // how long the neighbour waited for each of its replies
}

// startGreedy starts the proxy and the neighbour.
func startGreedy(t *testing.T, clientsMB int, args ...string) *greedy {
	t.Helper()
	args = append([]string{"--maxmemory-clients", strconv.Itoa(clientsMB) + "mb", "--maxmemory", "16mb", "--maxclients", "2000"}, args...)
	g := &greedy{proxy: startProxy(t, args...), clientsMB: clientsMB, stop: make(chan struct{}), late: make(chan []time.Duration, 1)}
	c := dial(t, g.addr)
	const enough = 20 // replies, so that one does not make the median of a short test
	go func() {       // ends with stop
		var late []time.Duration
		for {
			began := time.Now()
			_, err := c.Exchange([]any{"RL.SLIDE", "neighbour", 1_000_000, 60, "FAIL", "OPEN"})
			late = append(late, time.Since(began))
			select {
			case <-g.stop:
				if err != nil {
					late = nil // the proxy has closed the connection
				} else if len(late) < enough {
					continue
				}
				g.late <- late
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return g
}

// end checks the memory of the process, and that the neighbour was answered in time.
func (g *greedy) end(t *testing.T) {
	t.Helper()
	close(g.stop)
	late := <-g.late
	require.NotEmpty(t, late, "the neighbour's connection was closed")
	slices.Sort(late)
	t.Logf("the neighbour waited for %v, and %v at most", late[len(late)/2], late[len(late)-1])
	if !raceEnabled {
		require.Less(t, peakMB(t, g.Cmd.Process.Pid), g.clientsMB+besidesMB)
	}
	require.Less(t, late[len(late)/2], 100*time.Millisecond)
	require.Less(t, late[len(late)-1], 5*time.Second) // of a machine that tests share
	require.Equal(t, status("PONG"), dial(t, g.addr).do(t, "PING"))
	g.proxy.stop(t)
}

// send lets clients send the same bytes at the same time. Each reads one reply; a closed
// connection gives a nil reply. Connections are closed after the test.
func (g *greedy) send(t *testing.T, clients int, bytes []byte) (replies []any) {
	t.Helper()
	replies = make([]any, clients)
	var all sync.WaitGroup
	for i := range replies {
		c := dial(t, g.addr)
		all.Go(func() {
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			if _, err := c.Write(bytes); err != nil {
				return // the proxy has closed the connection
			}
			if reply, err := c.ReadReply(); err == nil {
				replies[i] = reply
			}
		})
	}
	all.Wait()
	return replies
}

// long returns a command with many different words.
func long(words int, name string, word func(i int) string) []byte {
	var b bytes.Buffer
	fields := strings.Fields(name)
	fmt.Fprintf(&b, "*%d\r\n", words+len(fields))
	for _, f := range fields {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(f), f)
	}
	for i := range words {
		w := word(i)
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.Bytes()
}

// times returns n, or some of them under the race detector.
func times(n int) int {
	if raceEnabled {
		return n / 100
	}
	return n
}

func key(i int) string { return "key:" + strconv.Itoa(i) }

// TestResetOfAMillionKeysTakesLittleMemory resets a million keys by one command, from one
// connection and from four, on both engines.
func TestResetOfAMillionKeysTakesLittleMemory(t *testing.T) {
	for nodes, keys := range map[int]int{0: 1_000_000, 2: 200_000} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			g := startGreedy(t, 128, backends(startNodes(t, nodes)...)...)
			c := dial(t, g.addr)
			c.decide(t, "RL.SLIDE key:7 5 60")
			reset := long(times(keys), "RL.RESET", key)
			require.Equal(t, []any{int64(1)}, g.send(t, 1, reset))
			require.Equal(t, int64(5), c.decide(t, "RL.SLIDE key:7 5 60 COST 0").remaining)
			for _, reply := range g.send(t, 4, reset) {
				if reply != nil { // else closed: together they need more memory than there is
					require.Equal(t, int64(0), reply)
				}
			}
			wrong := long(times(keys), "RL.RESET", func(i int) string { return key(i)[:min(i, 1)*len(key(i))] })
			require.Equal(t, []any{errReply("ERR key must be 1 to 4096 bytes; it had 0")}, g.send(t, 1, wrong))
			g.end(t)
		})
	}
}

// TestCommandsOfAMillionKeysTakeLittleMemory sends commands of a million keys while the nodes
// answer, and while none does.
func TestCommandsOfAMillionKeysTakeLittleMemory(t *testing.T) {
	nodes := startNodes(t, 3)
	args := append(backends(nodes...), "--passthrough-timeout", "1000", "--backend-timeout", "100")
	g := startGreedy(t, 128, args...)
	n := times(1_000_000)
	require.NoError(t, nodes[0].Set(context.Background(), "x", 1, 0).Err())
	require.Equal(t, []any{int64(0)}, g.send(t, 1, long(n, "EXISTS", key)))
	require.Equal(t, []any{int64(0)}, g.send(t, 1, long(n, "DEL", key)))
	got := g.send(t, 1, long(n, "MGET", key))[0]
	require.Len(t, got, n)
	for _, node := range nodes {
		node.Pause()
	}
	for _, name := range []string{"DEL", "EXISTS", "MGET"} {
		for _, reply := range g.send(t, 20, long(n, name, key)) {
			if reply != nil {
				require.Contains(t, reply, "UNAVAILABLE")
			}
		}
	}
	for _, node := range nodes {
		node.Resume()
	}
	g.end(t)
}

// scale returns the number of bytes in a MB, or in a quarter of one under the race detector. A test that scales both what
// clients send and maxmemory-clients fills the same share of it.
func scale() int {
	if raceEnabled {
		return 1 << 18
	}
	return 1 << 20
}

// TestNamesOfClientsAreShort sends long names, also before a login.
func TestNamesOfClientsAreShort(t *testing.T) {
	g := startGreedy(t, 64*scale()>>20)
	name, clients := strings.Repeat("n", 16*scale()), 20
	if raceEnabled {
		clients = 5 // together they still send more than there is room for
	}
	for _, words := range [][]any{
		{"CLIENT", "SETNAME", name}, {"CLIENT", "SETINFO", "LIB-NAME", name}, {"CLIENT", "SETINFO", "LIB-VER", name}, {"HELLO", 3, "SETNAME", name},
	} {
		for _, reply := range g.send(t, clients, appendCommand(nil, words...)) {
			if reply != nil {
				require.Regexp(t, fmt.Sprintf(`^ERR (a client name|lib-name|lib-ver) must have at most 512 bytes; it has %d: 'nnn`, len(name)), reply)
			}
		}
	}
	require.Equal(t, status("OK"), dial(t, g.addr).do(t, "CLIENT", "SETNAME", name[:512]))
	g.end(t)

	strangers := startProxy(t, "--requirepass", "secret")
	hello := appendCommand(nil, "HELLO", 3, "SETNAME", name[:16<<10])
	for range times(2000) {
		c := dial(t, strangers.addr)
		_, err := c.Write(hello)
		require.NoError(t, err)
		reply, err := c.ReadReply()
		require.NoError(t, err)
		require.Contains(t, reply, "ERR a client name must have at most 512 bytes")
	}
	if !raceEnabled {
		require.Less(t, peakMB(t, strangers.Cmd.Process.Pid), 80)
	}
	strangers.stop(t)
}

// TestTransactionQueuesAreBoundedTogether has many connections queue 30 MB each.
func TestTransactionQueuesAreBoundedTogether(t *testing.T) {
	g := startGreedy(t, 64*scale()>>20)
	queue := appendCommand(nil, "MULTI")
	for range 30 {
		queue = appendCommand(queue, "ECHO", strings.Repeat("x", scale()))
	}
	queued, refused := 0, 0
	first := dial(t, g.addr)
	for i := range 20 {
		c := first
		if i > 0 {
			c = dial(t, g.addr)
		}
		_, err := c.Write(queue)
		for range 31 {
			var reply any
			if err == nil {
				reply, err = c.ReadReply()
			}
			switch {
			case err != nil: // closed: there was no room to read the next command
				refused++
			case reply == status("QUEUED"):
				queued++
			case strings.HasPrefix(fmt.Sprint(reply), "ERR transaction queue is full"):
				refused++
			}
		}
	}
	t.Logf("%d commands of %d bytes queued, %d refused", queued, scale(), refused)
	require.Positive(t, refused)
	require.Len(t, first.do(t, "EXEC"), 30, "the first queue found room")
	g.end(t)
}

// TestRepliesOfLocalCommandsAreWrittenAsTheyGrow asks for the documentation of many
// commands, and reads none of it, or all.
func TestRepliesOfLocalCommandsAreWrittenAsTheyGrow(t *testing.T) {
	g := startGreedy(t, 128)
	n := times(200_000)
	var silent []*conn
	for _, name := range []string{"COMMAND DOCS", "COMMAND INFO"} {
		command := long(n, name, func(int) string { return "rl.slide" })
		for range 2 {
			c := dial(t, g.addr)
			_, err := c.Write(command)
			require.NoError(t, err)
			silent = append(silent, c)
		}
		reader := dial(t, g.addr)
		_, err := reader.Write(append([]byte("*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n"), append(command, command...)...))
		require.NoError(t, err)
		_, err = reader.Write([]byte("*1\r\n$4\r\nQUIT\r\n"))
		require.NoError(t, err)
		reply := new(tail)
		_, err = io.Copy(reply, reader)
		require.NoError(t, err)
		require.Greater(t, reply.size, int64(n*200))
		require.Equal(t, "+OK\r\n", reply.end)
	}
	for _, c := range silent {
		require.NoError(t, c.Close()) // the proxy would wait for them at the end
	}
	g.end(t)
}

// tail keeps the last bytes that are written to it.
type tail struct {
	size int64
	end  string
}

func (w *tail) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	w.end += string(p[max(len(p)-5, 0):])
	w.end = w.end[max(len(w.end)-5, 0):]
	return len(p), nil
}

// TestMergedRepliesAreBounded reads 168 MB from three nodes. That is more than
// maxmemory-clients allows, and so an error. With a larger bound, the replies are not copied.
func TestMergedRepliesAreBounded(t *testing.T) {
	nodes := startNodes(t, 3)
	g := startGreedy(t, 64*scale()>>20, backends(nodes...)...)
	roomy := startProxy(t, append(backends(nodes...), "--maxmemory-clients", strconv.Itoa(200*scale()>>20)+"mb", "--maxmemory", "16mb", "--maxclients", "2000")...)
	values := 168
	if raceEnabled {
		values = 72
	}
	c := dial(t, g.addr)
	mget := []any{"MGET"}
	for i := range values {
		require.Equal(t, status("OK"), c.do(t, "SET", key(i), strings.Repeat(strconv.Itoa(i%10), scale())))
		mget = append(mget, key(i))
	}
	require.Contains(t, c.do(t, mget...), "maxmemory-clients")
	got, _ := dial(t, roomy.addr).do(t, mget...).([]any)
	require.Len(t, got, values)
	for i, v := range got {
		require.Equal(t, strings.Repeat(strconv.Itoa(i%10), scale()), v)
	}
	if !raceEnabled {
		require.Less(t, peakMB(t, roomy.Cmd.Process.Pid), 200+besidesMB)
	}
	roomy.stop(t)
	g.end(t)
}

// TestLongKeysThatAreRememberedTakeLittleMemory lets the proxy remember denials and split keys,
// with keys of 4 KB.
func TestLongKeysThatAreRememberedTakeLittleMemory(t *testing.T) {
	g := startGreedy(t, 64, backends(startNodes(t, 2)...)...)
	var all sync.WaitGroup
	for i := range 8 {
		c := dial(t, g.addr)
		all.Go(func() {
			long := strings.Repeat("k", 4080)
			for j := range times(1000) {
				name := long + strconv.Itoa(i*1_000_000+j)
				if _, err := c.Exchange([]any{"RL.FIXED", name, 1, "1d"}, []any{"RL.FIXED", name, 1, "1d"},
					[]any{"RL.FIXED", name + "s", 2000, "1d", "SHARDS", 64}); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if !raceEnabled {
		require.Less(t, peakMB(t, g.Cmd.Process.Pid), 90)
	}
	g.end(t)
}

// TestLargeArgumentsAreBoundedAndTheirMemoryReturned has 50 connections send 60 MB each and
// then close. Two seconds later the process is as small as before.
func TestLargeArgumentsAreBoundedAndTheirMemoryReturned(t *testing.T) {
	g := startGreedy(t, 300)
	head := []byte("*2\r\n$4\r\nECHO\r\n$62914560\r\n")
	body := bytes.Repeat([]byte("x"), 1<<20)
	var open []net.Conn
	var all sync.WaitGroup
	for range 50 {
		c := dial(t, g.addr)
		open = append(open, c)
		all.Go(func() {
			for i, b := range append([][]byte{head}, slices.Repeat([][]byte{body}, 59)...) {
				if _, err := c.Write(b); err != nil || i > 0 && raceEnabled {
					return // closed
				}
			}
		})
	}
	all.Wait()
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	began := time.Now()
	eventually(t, "the memory to be returned", func() bool { return raceEnabled || residentMB(t, g.Cmd.Process.Pid) < 40 })
	t.Logf("returned after %v", time.Since(began))
	require.Less(t, time.Since(began), 5*time.Second)
	g.end(t)
}

// TestWaitingRequestsAreCounted has many connections wait for a stopped node with long
// pipelines.
func TestWaitingRequestsAreCounted(t *testing.T) {
	clientsMB, connections := 64, 300
	if raceEnabled {
		clientsMB, connections = 16, 75
	}
	node := startNode(t)
	p := startProxy(t, append(backends(node), "--maxmemory-clients", strconv.Itoa(clientsMB)+"mb", "--maxmemory", "16mb", "--maxclients", "2000")...)
	node.Pause()
	var b []byte
	for i := range 1000 {
		b = appendCommand(b, "RL.SLIDE", key(i), 5, 60)
		b = appendCommand(b, "GET", key(i))
	}
	var clients []*conn
	for range connections {
		c := dial(t, p.addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err := c.Write(b)
		require.NoError(t, err)
		clients = append(clients, c)
	}
	observer := dial(t, p.addr)
	eventually(t, "the requests to wait", func() bool { return stat(t, observer, "mem_clients") > clientsMB*9/10<<20 })
	node.Resume()
	for _, c := range clients {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		for range 2000 {
			_, err := c.ReadReply()
			require.NoError(t, err, "slices get shorter, and no connection is closed")
		}
	}
	if !raceEnabled {
		require.Less(t, peakMB(t, p.Cmd.Process.Pid), clientsMB+besidesMB)
	}
	p.stop(t)
}

// stat returns a number from INFO's section stats.
func stat(t *testing.T, c *conn, name string) int {
	t.Helper()
	text, _ := c.do(t, "INFO", "stats").(string)
	_, rest, _ := strings.Cut(text, "\r\n"+name+":")
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(digits)
	require.NoError(t, err)
	return n
}
