package engine

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// openForward opens an engine on nodes that has time.
func openForward(t testing.TB, change func(c *RedisConfig), nodes ...*redistest.Server) *Redis {
	t.Helper()
	config := RedisConfig{Timeout: 5 * time.Second, ForwardTimeout: 20 * time.Second}
	for _, n := range nodes {
		config.Backends = append(config.Backends, n.URL())
	}
	if change != nil {
		change(&config)
	}
	e, err := OpenRedis(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func startServers(t testing.TB, n int) []*redistest.Server {
	servers := make([]*redistest.Server, n)
	for i := range servers {
		servers[i] = redistest.Start(t)
	}
	return servers
}

var wordPattern = regexp.MustCompile(`"(?:\\.|[^"\\])*"|\S+`)

// commandLine splits a line into words, of which some are quoted as in Go.
func commandLine(t testing.TB, line string) [][]byte {
	var args [][]byte
	for _, w := range wordPattern.FindAllString(line, -1) {
		if w[0] == '"' {
			plain, err := strconv.Unquote(w)
			require.NoError(t, err, line)
			w = plain
		}
		args = append(args, []byte(w))
	}
	return args
}

// ordinary adds a command to a pipeline.
func (p *Pipeline) ordinary(t testing.TB, proto int, line string) {
	r := p.Add()
	r.Op, r.Args, r.RESP3 = OpForward, commandLine(t, line), proto == 3
}

// forwardAll sends commands in one pipeline and returns what came back, in bytes or
// as an error's text.
func forwardAll(t testing.TB, e *Redis, proto int, lines ...string) []string {
	var p Pipeline
	for _, line := range lines {
		p.ordinary(t, proto, line)
	}
	e.Do(&p)
	replies := make([]string, len(lines))
	for i := range p.Results {
		if replies[i] = string(p.Results[i].Raw); p.Results[i].Err != nil {
			replies[i] = p.Results[i].Err.Error()
		}
	}
	p.Reset()
	require.Zero(t, e.replies.held.Load(), "memory of replies is given back")
	return replies
}

// direct is a connection straight to a node.
type direct struct {
	net.Conn
	r *bufio.Reader
}

func dialDirect(t testing.TB, s *redistest.Server, proto int) *direct {
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	d := &direct{conn, bufio.NewReader(conn)}
	d.ask(t, commandLine(t, fmt.Sprintf("HELLO %d", proto)))
	return d
}

// ask sends a command and returns the bytes of its reply.
func (d *direct) ask(t testing.TB, args [][]byte) string {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := d.Write(b)
	require.NoError(t, err)
	var reply bytes.Buffer
	require.NoError(t, d.copyReply(&reply))
	return reply.String()
}

func (d *direct) copyReply(to *bytes.Buffer) error {
	line, err := d.r.ReadBytes('\n')
	if err != nil {
		return err
	}
	to.Write(line)
	n, _ := strconv.Atoi(string(line[1 : len(line)-2])) // 0 where it is no length
	switch line[0] {
	case '$', '=', '!':
		if n >= 0 {
			_, err = io.CopyN(to, d.r, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil
	}
	for range n {
		if err := d.copyReply(to); err != nil {
			return err
		}
	}
	return nil
}

// corpus are the commands of testdata/forward.txt.
func corpus(t testing.TB) (lines []string) {
	text, err := os.ReadFile("testdata/forward.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	require.Greater(t, len(lines), 250)
	return lines
}

// A node's replies come back byte for byte, one command at a time and all in one
// pipeline.
func TestForwardIsByteForByte(t *testing.T) {
	lines := corpus(t)
	for _, nodes := range []int{1, 3} {
		for _, proto := range []int{2, 3} {
			t.Run(fmt.Sprintf("%d nodes, RESP%d", nodes, proto), func(t *testing.T) {
				t.Parallel()
				straight := dialDirect(t, redistest.Start(t), proto)
				alone := openForward(t, nil, startServers(t, nodes)...)
				together := openForward(t, nil, startServers(t, nodes)...)
				piped := forwardAll(t, together, proto, lines...)
				for i, line := range lines {
					want := straight.ask(t, commandLine(t, line))
					require.Equal(t, want, forwardAll(t, alone, proto, line)[0], line)
					require.Equal(t, want, piped[i], "in a pipeline: %s", line)
				}
			})
		}
	}
}

// keysOn returns a key for each of the engine's nodes.
func keysOn(e *Redis) []any {
	top := e.topology.Load()
	keys := make([]any, len(top.nodes))
	for left, i := len(keys), 0; left > 0; i++ {
		key := fmt.Sprint("k", i)
		if node, _ := top.locateStored([]byte(key)); keys[node] == nil {
			keys[node] = key
			left--
		}
	}
	return keys
}

// Commands whose keys lie on several nodes are split and merged, or refused. In the
// lines %[1]s to %[3]s are keys on different nodes.
func TestForwardSplits(t *testing.T) {
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			t.Parallel()
			straight := dialDirect(t, redistest.Start(t), proto)
			e := openForward(t, nil, startServers(t, 3)...)
			keys := keysOn(e)
			for _, line := range []string{
				"MSET %[1]s 1 %[2]s 2 %[3]s 3 d 4 e 5 f 6 g 7",
				"MGET %[1]s none %[2]s %[3]s %[1]s d e f g none",
				`MSET %[1]s "x\r\n$1" %[2]s ""`,
				"MGET %[1]s %[2]s",
				"MSET %[1]s 1 %[2]s",
				"EXISTS %[1]s %[2]s %[3]s d none %[1]s",
				"TOUCH %[1]s %[2]s none",
				"DEL %[1]s none %[2]s",
				"UNLINK %[1]s %[3]s d",
				"DBSIZE",
				`SCRIPT LOAD "return 5"`,
				"EVALSHA 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 1 %[1]s",
				"EVALSHA 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 1 %[2]s",
				"HSET %[1]s f v",
				"MGET %[1]s %[2]s %[3]s",
			} {
				line = fmt.Sprintf(line+"%.0[1]s%.0[2]s%.0[3]s", keys...)
				require.Equal(t, straight.ask(t, commandLine(t, line)), forwardAll(t, e, proto, line)[0], line)
			}
			for _, line := range []string{
				"MSETNX %[1]s 1 %[2]s 2", "RENAME %[1]s %[2]s", "SINTER %[1]s %[2]s", "SORT %[1]s STORE %[2]s",
				`EVAL "return 1" 2 %[1]s %[2]s`, "BITOP AND %[1]s %[2]s", "PFCOUNT %[1]s %[2]s", "XREAD STREAMS %[1]s %[2]s 0 0",
			} {
				line = fmt.Sprintf(line+"%.0[1]s%.0[2]s%.0[3]s", keys...)
				require.Equal(t, errCrossSlot.Error(), forwardAll(t, e, proto, line)[0], line)
			}
		})
	}
}

// What is not passed on is refused, and says why.
func TestForwardRefuses(t *testing.T) {
	servers := startServers(t, 3)
	one, three := openForward(t, nil, servers[0]), openForward(t, nil, servers...)
	for why, lines := range map[string][]string{
		"it is about the connection": {
			"MONITOR", "SYNC", "PSYNC ? -1", "REPLCONF ack 0", "CLIENT PAUSE 1", "READONLY", "ASKING", "AUTH x", "HELLO 3",
			"SELECT 1", "MULTI", "EXEC", "WATCH a", "WAIT 0 0", "QUIT", "RESET",
		},
		"pub/sub needs": {"PUBLISH a b", "SPUBLISH a b", "PSUBSCRIBE *", "SSUBSCRIBE a", "PUBSUB CHANNELS"},
		"it blocks":     {"BLPOP a 0", "BRPOP a 1", "BLMOVE a b LEFT LEFT 0", "BRPOPLPUSH a b 0", "BLMPOP 0 1 a LEFT", "BZPOPMIN a 0", "BZMPOP 0 1 a MIN"},
		"with BLOCK":    {"XREAD BLOCK 0 STREAMS a $", "xread count 1 block 0 streams a $", "XREADGROUP GROUP g c BLOCK 0 STREAMS a >"},
		"it administers": {
			"FLUSHALL", "flushdb", "CONFIG SET maxmemory 1", "CONFIG REWRITE", "SHUTDOWN", "DEBUG SLEEP 0", "ACL LIST", "KEYS *",
			"SWAPDB 0 1", "REPLICAOF NO ONE", "MIGRATE h 1 k 0 1", "RESTORE k 0 x", "MODULE LIST", "SAVE", "BGSAVE", "CLUSTER RESET", "INFO",
			"SLOWLOG RESET", "LATENCY RESET",
		},
		"begin with rl:": {
			"SET rl:{a} 1", "DEL rl:{a}", "DEL a rl:{a}", "EXPIRE rl:{a} 1", "EVAL x 1 rl:{a}", "EVALSHA x 2 a rl:{a}", "FCALL f 1 rl:{a}",
			"SORT a STORE rl:{a}", "RENAME rl:{a} {a}", "COPY {a} rl:{a}", "MSET a 1 rl:{a} 2", "GEORADIUS k 0 0 1 m STORE rl:{k}",
			"GEORADIUS k 0 0 1 m STORE k STORE rl:{k}", "ZUNIONSTORE rl:{k} 1 k", "LMPOP 1 rl:{a} LEFT", "HSET rl:{a} f v", "GETDEL rl:{a}",
		},
		"unknown command":    {"NOPE", "RL.NOPE a", strings.Repeat("x", 100)},
		"unknown subcommand": {"OBJECT NOPE a", "XGROUP NOPE"},
	} {
		for _, line := range lines {
			for _, e := range []*Redis{one, three} {
				require.Contains(t, forwardAll(t, e, 2, line)[0], why, line)
				require.ErrorContains(t, e.CheckForward(commandLine(t, line)), why, line)
			}
		}
	}
	for _, line := range []string{"RANDOMKEY", "SCAN 0", `EVAL "return 1" 0`, `EVAL_RO "return 1" 0`, "FCALL f 0", "LOLWUT"} {
		require.Contains(t, forwardAll(t, three, 2, line)[0], "there are several nodes", line)
		require.NotContains(t, forwardAll(t, one, 2, line)[0], "is not passed on", line)
	}
	for _, s := range servers {
		require.Zero(t, s.Client.DBSize(t.Context()).Val(), "nothing was written")
	}
}

// With administration passed on, what cluster clients send to every node goes to all.
func TestForwardAdministration(t *testing.T) {
	servers := startServers(t, 3)
	e := openForward(t, func(c *RedisConfig) { c.ForwardAdmin = true }, servers...)
	require.Equal(t, []string{"+OK\r\n", "+OK\r\n"}, forwardAll(t, e, 2, "MSET a 1 b 2 c 3 d 4 e 5", "CONFIG SET hz 20"))
	for _, s := range servers {
		require.Equal(t, "20", s.Client.ConfigGet(t.Context(), "hz").Val()["hz"])
	}
	require.Equal(t, []string{":5\r\n", "+OK\r\n", ":0\r\n"}, forwardAll(t, e, 2, "DBSIZE", "FLUSHALL", "DBSIZE"))
	require.Contains(t, forwardAll(t, e, 2, "MONITOR")[0], "is not passed on")
	require.Contains(t, forwardAll(t, e, 2, "CONFIG SET hz x")[0], "-ERR CONFIG SET failed")
}
