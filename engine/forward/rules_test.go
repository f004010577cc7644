package forward

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandsThatAreNotForwardedAreRefusedWithAReason(t *testing.T) {
	servers := startServers(t, 3)
	one, three := open(t, nil, servers[0]), open(t, nil, servers...)
	for why, lines := range map[string][]string{
		"it concerns the connection": {
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
			for _, f := range []*Forwarder{one, three} {
				require.Contains(t, forwardAll(t, f, 2, line)[0], why, line)
				require.ErrorContains(t, f.Check(commandLine(t, line)), why, line)
			}
		}
	}
	for _, line := range []string{"RANDOMKEY", "SCAN 0", `EVAL "return 1" 0`, `EVAL_RO "return 1" 0`, "FCALL f 0", "LOLWUT"} {
		require.Contains(t, forwardAll(t, three, 2, line)[0], "there are several nodes", line)
		require.NotContains(t, forwardAll(t, one, 2, line)[0], "is not forwarded", line)
	}
	for _, s := range servers {
		require.Zero(t, s.Client.DBSize(t.Context()).Val(), "nothing was written")
	}
}
