package commands

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// forwarding returns a handler in front of a real node.
func forwarding(t *testing.T) (*Handler, *redistest.Server) {
	node := redistest.Start(t)
	e, err := engine.OpenRedis(engine.RedisConfig{Backends: []string{node.URL()}, Timeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	cfg := testConfig(e)
	cfg.Passthrough = true
	return New(cfg), node
}

// lines makes a pipeline of one command a line.
func lines(text string) (pipeline [][][]byte) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			pipeline = append(pipeline, words(f...))
		}
	}
	return pipeline
}

// Ordinary commands stand in their places among those of this proxy, in and out of
// transactions, in either protocol, and whether or not they are answered.
func TestForwardConversation(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	require.Equal(t, "+OK\r\n+PONG\r\n*5\r\n:1\r\n:2\r\n:1\r\n:0\r\n:60001\r\n$1\r\n1\r\n", ask(h, s, lines(`
		SET a 1
		PING
		RL.SLIDE u 2 60
		GET a`)...))
	require.Equal(t, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"+
		"*4\r\n:2\r\n*5\r\n:1\r\n:2\r\n:0\r\n:0\r\n:60001\r\n-WRONGTYPE Operation against a key holding the wrong kind of value\r\n$1\r\n2\r\n",
		strings.Replace(ask(h, s, lines(`
		MULTI
		INCR a
		RL.SLIDE u 2 60
		LPUSH a x
		GET a
		EXEC`)...), ":60000", ":60001", 1))
	require.Equal(t, "+OK\r\n-ERR unknown command 'NOPE', with args beginning with: 'x' \r\n-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n2\r\n",
		ask(h, s, lines("MULTI\nNOPE x\nEXEC\nGET a")...))
	require.Equal(t, "+OK\r\n-ERR 'flushall' is not passed on: it administers the node, see the directive passthrough-admin\r\n+OK\r\n",
		ask(h, s, lines("MULTI\nFLUSHALL\nDISCARD")...))
	require.Equal(t, "-ERR unknown subcommand 'NOPE'. Try OBJECT HELP.\r\n", ask(h, s, lines("OBJECT NOPE")...))
	require.Equal(t, "-ERR 'config|set' is not passed on: it administers the node, see the directive passthrough-admin\r\n", ask(h, s, lines("CONFIG SET hz 20")...))

	s.Out = nil
	ask(h, s, lines("HELLO 3")...)
	require.Equal(t, ":1\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n_\r\n", ask(h, s, lines("HSET h f v\nHGETALL h\nGET none")...))
	require.Equal(t, "+RESET\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n$-1\r\n", ask(h, s, lines("RESET\nHGETALL h\nGET none")...))
}

// Commands that CLIENT REPLY silences are run.
func TestForwardSilently(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	require.Equal(t, "+OK\r\n:2\r\n", ask(h, s, lines("CLIENT REPLY OFF\nINCR n\nCLIENT REPLY ON\nINCR n")...))
	require.Equal(t, ":4\r\n", ask(h, s, lines("CLIENT REPLY SKIP\nINCR n\nINCR n")...))
}

// Large replies keep their places, too.
func TestForwardLargeReplies(t *testing.T) {
	h, node := forwarding(t)
	s := open(h, 1)
	large := bytes.Repeat([]byte("0123456789abcdef"), flushAt/8)
	require.NoError(t, node.Client.Set(t.Context(), "large", large, 0).Err())
	bulk := fmt.Sprintf("$%d\r\n%s\r\n", len(large), large)
	require.Equal(t, bulk+"+PONG\r\n"+bulk+bulk+"+OK\r\n"+bulk, ask(h, s, lines("GET large\nPING\nGET large\nGET large\nSET a 1\nGET large")...))
}

// Without passthrough, ordinary commands are unknown.
func TestForwardOff(t *testing.T) {
	h, _ := forwarding(t)
	h.cfg.Passthrough = false
	require.Equal(t, "-ERR unknown command 'GET', with args beginning with: 'a' (ordinary Redis commands need a backend, see the directives backend and passthrough)\r\n",
		ask(h, open(h, 1), lines("GET a")...))
}
