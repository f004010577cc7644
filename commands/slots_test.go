package commands

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/slots"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/resp"
)

// slotsServer is a server on the embedded engine, with leases that are tied to connections.
type slotsServer struct {
	addr   string
	server *resp.Server
	engine engine.Engine
	keeper *slots.Keeper
	memory *resp.Budget
}

func serveSlots(t *testing.T, clientMemory int64) *slotsServer {
	s := &slotsServer{engine: memory.Open(memory.Config{}), memory: resp.NewBudget(clientMemory)}
	s.keeper = slots.Open(slots.Config{Engine: s.engine, Reserve: s.memory.Reserve})
	clients := new(serverClients)
	s.server = resp.NewServer(resp.Config{Memory: s.memory}, New(Config{
		Engine: s.engine, Slots: s.keeper, Clients: clients, ACL: users(t, "one on nopass ~* +@all", "two on nopass ~* +@all", "default on nopass ~* +@all"),
	}))
	clients.server = s.server
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ln) }() // ends at Shutdown
	t.Cleanup(func() {
		require.NoError(t, s.server.Shutdown(context.Background()))
		require.NoError(t, <-served)
		s.keeper.Close()
		require.Zero(t, s.memory.Reserved(), "all memory of leases is given back")
		require.NoError(t, s.engine.Close())
	})
	return s
}

type serverClients struct{ server *resp.Server }

func (c *serverClients) Kill(id int64) bool { return c.server.Kill(id) }

func (s *slotsServer) dial(t *testing.T) *proxytest.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return proxytest.NewConn(c)
}

// say sends commands in one pipeline and returns the replies as text.
func say(t *testing.T, c *proxytest.Conn, lines ...string) string {
	t.Helper()
	var commands [][]any
	for _, line := range lines {
		var words []any
		for _, w := range proxytest.Words(t, line) {
			words = append(words, string(w))
		}
		commands = append(commands, words)
	}
	replies, err := c.Exchange(commands...)
	require.NoError(t, err)
	return fmt.Sprint(replies...)
}

// free returns how many of the eight slots of the key k are free.
func (s *slotsServer) free() int64 {
	var p engine.Pipeline
	r := p.Add()
	r.Kind, r.Key, r.N, r.Param, r.Hold = limit.Concurrency, []byte("k"), 1, 1, &engine.Hold{TTL: 1000, Release: true}
	r.Windows[0].Limit = 8
	s.engine.Do(&p)
	return p.Results[0].Remaining
}

// eventuallyFree waits until so many of eight slots are free.
func (s *slotsServer) eventuallyFree(t *testing.T, n int64, why string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.free() == n }, 10*time.Second, time.Millisecond, why)
}

func TestLeasesWithCONNEndWithTheirConnection(t *testing.T) {
	s := serveSlots(t, 1<<20)
	boss := s.dial(t)
	for name, end := range map[string]func(c *proxytest.Conn){
		"the client closes": func(c *proxytest.Conn) { require.NoError(t, c.Close()) },
		"the client resets": func(c *proxytest.Conn) {
			require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0))
			require.NoError(t, c.Close())
		},
		"QUIT, and no close": func(c *proxytest.Conn) { require.Equal(t, "OK", say(t, c, "QUIT")) },
		"RESET":              func(c *proxytest.Conn) { require.Equal(t, "RESET", say(t, c, "RESET")) },
		"CLIENT KILL":        func(c *proxytest.Conn) { say(t, boss, "CLIENT KILL ID "+say(t, c, "CLIENT ID")) },
		"a protocol error":   func(c *proxytest.Conn) { _, err := c.Write([]byte("*1\r\n!\r\n")); require.NoError(t, err) },
		"in the middle of a pipeline": func(c *proxytest.Conn) {
			_, err := c.Write([]byte("*4\r\n$10\r\nRL.ACQ"))
			require.NoError(t, err)
			require.NoError(t, c.Close())
		},
		"an RL.ACQUIRE that is behind": func(c *proxytest.Conn) {
			_, err := c.Write(proxytest.AppendCommand(nil, "RL.ACQUIRE", "k", 8, "ID", "last", "CONN"))
			require.NoError(t, err)
			require.NoError(t, c.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dial(t)
			require.Equal(t, "[1 8 5 0", say(t, c, "RL.ACQUIRE k 8 ID a COST 3 CONN TTL 1m", "RL.ACQUIRE k 8 ID b CONN TTL 1m")[:8])
			require.EqualValues(t, 4, s.free())
			end(c)
			s.eventuallyFree(t, 8, "all are released")
		})
	}
}

func TestLeasesWithCONNOutliveOtherThings(t *testing.T) {
	s := serveSlots(t, 1<<20)
	c, other := s.dial(t), s.dial(t)
	say(t, c, "MULTI", "RL.ACQUIRE k 8 ID a CONN", "RL.ACQUIRE k 8 ID b", "EXEC")
	say(t, c, "RL.ACQUIRE k 8 ID c CONN COST 2", "AUTH one x", "HELLO 3 AUTH two x", "AUTH default x")
	require.EqualValues(t, 4, s.free(), "another user has the same connection")
	require.Equal(t, "1", say(t, other, "RL.RELEASE k c unknown"))
	require.EqualValues(t, 6, s.free())
	require.NoError(t, c.Close())
	s.eventuallyFree(t, 7, "b is not tied")
	require.EqualValues(t, 0, s.keeper.Stats()[0].Value)

	again := s.dial(t)
	say(t, other, "RL.ACQUIRE k 8 ID d CONN")
	say(t, again, "RL.ACQUIRE k 8 ID d CONN") // the same client, connected again
	require.NoError(t, other.Close())
	require.Eventually(t, func() bool { return s.server.Stats().Current.Load() == 1 }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 6, s.free())
	say(t, again, "RL.RELEASE k b d")
	require.EqualValues(t, 8, s.free())
}

func TestALeaseWithCONNIsRenewedBeforeTheTTLOfRLRENEW(t *testing.T) {
	s := serveSlots(t, 1<<20)
	c, other := s.dial(t), s.dial(t)
	say(t, c, "RL.ACQUIRE k 8 ID a CONN TTL 1h")
	require.Equal(t, "1", say(t, other, "RL.RENEW k a TTL 3s"))
	require.Eventually(t, func() bool {
		reply, err := other.Exchange([]any{"RL.ACQUIRE", "k", 8, "ID", "b", "COST", 0})
		require.NoError(t, err)
		return reply[0].([]any)[4].(int64) > 60_000
	}, 10*time.Second, 10*time.Millisecond, "it has its own TTL again")
}

func TestShutdownReleasesLeasesWithCONN(t *testing.T) {
	s := serveSlots(t, 1<<20)
	for id := range 4 {
		say(t, s.dial(t), fmt.Sprintf("RL.ACQUIRE k 8 ID %d CONN TTL 1h", id))
	}
	require.EqualValues(t, 4, s.free())
	require.NoError(t, s.server.Shutdown(context.Background()))
	require.EqualValues(t, 8, s.free(), "before the engine is closed")
}

func TestLeasesWithCONNAreWithinTheMemoryOfClients(t *testing.T) {
	s := serveSlots(t, 256<<10)
	c := s.dial(t)
	const errNoMemory = "ERR cannot tie another lease to a connection: maxmemory-clients is reached"
	n, last := 0, ""
	for ; n < 2000 && last != errNoMemory; n++ {
		last = say(t, c, fmt.Sprintf("RL.ACQUIRE key:%d 8 ID a CONN", n))
	}
	require.Equal(t, errNoMemory, last)
	require.Greater(t, n, 300)
	require.Equal(t, "1 1", say(t, c, "RL.RELEASE key:7 a", "RL.RELEASE key:8 a"))
	require.Contains(t, say(t, c, fmt.Sprintf("RL.ACQUIRE key:%d 8 ID a CONN", n)), "[1 8 7 0 ")
}

// A multi-key request is sent as a whole, and so are the pieces of a long RL.RELEASE.
func TestLongPipelinesCutNoMultiKeyRequest(t *testing.T) {
	e := newFakeEngine()
	cfg := testConfig(e)
	cfg.Slots = slots.Open(slots.Config{Engine: e})
	defer cfg.Slots.Close()
	h := New(cfg)
	s := open(h, 1)
	var pipeline []resp.Command
	for i := range 500 {
		pipeline = append(pipeline, words("RL.FIXED", fmt.Sprint("a", i), "5", "60", "AND", fmt.Sprint("b", i), "5", "60", "AND", "everyone", "1000", "60"))
	}
	rest := []byte(ask(h, s, pipeline...))
	for range pipeline {
		var ok bool
		require.Equal(t, "*3\r\n*5\r\n:1\r\n", string(rest[:12]))
		rest, ok = skipReply(rest)
		require.True(t, ok)
	}
	require.Empty(t, rest)
	require.EqualValues(t, 500, e.used("everyone"))

	release := words("RL.RELEASE", "k")
	for i := range 1300 {
		id := fmt.Sprint(i)
		release = append(release, []byte(id))
		if i%2 == 0 {
			pipeline = append(pipeline[:0], words("RL.ACQUIRE", "k", "10000", "ID", id, "CONN"))
			require.Contains(t, ask(h, s, pipeline...), "*5\r\n:1\r\n")
		}
	}
	require.EqualValues(t, 650, cfg.Slots.Stats()[0].Value)
	e.calls = nil
	require.Equal(t, ":650\r\n", ask(h, s, release))
	require.Equal(t, []int{512, 512, 276}, e.calls)
	released := int64(-1)
	for _, stat := range cfg.Observer.Stats() {
		if stat.Name == "slots_released" {
			released = stat.Value
		}
	}
	require.EqualValues(t, 650, released, "pieces are counted")
	require.Zero(t, cfg.Slots.Stats()[0].Value)
	release[3] = make([]byte, 65)
	require.Equal(t, "-ERR id must be 1 to 64 bytes; it had 65\r\n", ask(h, s, release))
	release[3], release[1] = []byte("1"), []byte("away")
	require.Equal(t, "-UNAVAILABLE 10.0.0.1:6379: no answer in 50ms\r\n", ask(h, s, release))
	h.Close(s)
}

// The server waits for a client that was told to go, and calls Close only then.
func TestLeasesAreReleasedBeforeTheReplyToQUIT(t *testing.T) {
	e := newFakeEngine()
	cfg := testConfig(e)
	cfg.Slots = slots.Open(slots.Config{Engine: e})
	defer cfg.Slots.Close()
	h := New(cfg)
	s := open(h, 1)
	require.Contains(t, ask(h, s, words("RL.ACQUIRE", "k", "2", "ID", "a", "CONN")), "*5\r\n:1\r\n")
	require.EqualValues(t, 1, e.used("k"))
	require.Equal(t, "+OK\r\n", ask(h, s, words("QUIT")))
	require.Zero(t, e.used("k"))
	h.Close(s)
}
