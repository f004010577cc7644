package forward

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCommandsThatAreNotForwardedAreRefusedWithAReason(t *testing.T) {
	servers := startServers(t, 3)
	one, three := open(t, nil, servers[0]), open(t, nil, servers...)
	for why, lines := range map[string][]string{
		"it concerns the connection or the server": {
			"MONITOR", "SYNC", "PSYNC ? -1", "REPLCONF ack 0", "CLIENT PAUSE 1", "READONLY", "ASKING", "AUTH x", "HELLO 3",
			"SELECT 1", "COMMAND DOCS GET", "MULTI", "EXEC", "WATCH a", "WAIT 0 0", "QUIT", "RESET",
			"SCRIPT DEBUG YES",
		},
		"pub/sub is not supported": {"PUBLISH a b", "SPUBLISH a b", "PSUBSCRIBE *", "SSUBSCRIBE a", "PUBSUB CHANNELS"},
		"it blocks":                {"BLPOP a 0", "BRPOP a 1", "BLMOVE a b LEFT LEFT 0", "BRPOPLPUSH a b 0", "BLMPOP 0 1 a LEFT", "BZPOPMIN a 0", "BZMPOP 0 1 a MIN"},
		"with BLOCK": {"XREAD BLOCK 0 STREAMS a $", "xread count 1 block 0 streams a $", "XREADGROUP GROUP g c BLOCK 0 STREAMS a >",
			"XREADGROUP GROUP streams c BLOCK 0 STREAMS a >", "xreadgroup group g Streams block 0 streams a >",
			"XREADGROUP COUNT 1 GROUP g STREAMS NOACK BLOCK 0 STREAMS a >", "XREADGROUP GROUP GROUP STREAMS BLOCK 0 STREAMS a >",
			"XREADGROUP GROUP block block BLOCK 0 STREAMS a >"},
		"it administers": {
			"FLUSHALL", "flushdb", "CONFIG SET maxmemory 1", "CONFIG REWRITE", "SHUTDOWN", "DEBUG SLEEP 0", "ACL LIST", "KEYS *",
			"SWAPDB 0 1", "REPLICAOF NO ONE", "MIGRATE h 1 k 0 1", "RESTORE k 0 x", "MODULE LIST", "SAVE", "BGSAVE", "CLUSTER RESET", "INFO",
			"SLOWLOG RESET", "LATENCY RESET",
		},
		"begin with rl:{": {
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
				require.ErrorContains(t, f.Join(new(Pipeline), new(Transaction), commandLine(t, line)), why, line)
			}
		}
	}
	for _, line := range []string{
		"XREADGROUP GROUP block BLOCK STREAMS a >", "XREADGROUP GROUP g c COUNT 1 STREAMS block >", "XREAD COUNT 1 STREAMS block 0",
		"SET rl: 1", "SET rl:user:1 1", "DEL rl:user:1", "SET rl 1",
	} {
		require.NotRegexp(t, "is not forwarded|hold the state", forwardAll(t, one, 2, line)[0], line)
	}
	one.Do(&Pipeline{Commands: []Command{{Args: commandLine(t, "DEL rl: rl:user:1 rl")}}})
	for _, line := range []string{"RANDOMKEY", "SCAN 0", `EVAL "return 1" 0`, `EVAL_RO "return 1" 0`, "FCALL f 0", "LOLWUT"} {
		require.Contains(t, forwardAll(t, three, 2, line)[0], "there are several nodes", line)
		require.NotContains(t, forwardAll(t, one, 2, line)[0], "is not forwarded", line)
	}
	for _, s := range servers {
		require.Zero(t, s.Client.DBSize(t.Context()).Val(), "nothing was written")
	}
}

var update = flag.Bool("update", false, "rewrite testdata/verdicts.txt")

// testdata/verdicts.txt has every command that COMMAND of Redis or Valkey shows, of the versions that
// were tried, with what rlproxy makes of it: why it is not forwarded, and whether it may see or change
// every key. A command that is not in the file, or has changed, fails the test until somebody has
// judged it. The two rules below hold for any command, whatever the file says.
func TestEveryCommandIsJudged(t *testing.T) {
	f := open(t, nil, redistest.Start(t))
	_, err := f.Describe(new(Pipeline), commandLine(t, "GET a"))
	require.NoError(t, err)
	var verdicts []string
	var judge func(rows commandTable)
	judge = func(rows commandTable) {
		for _, row := range rows {
			if len(row.subs) > 0 {
				judge(row.subs)
				continue
			}
			verdict := "forwarded"
			switch {
			case row.refusal != "":
				_, verdict, _ = strings.Cut(row.refusal, "is not forwarded: ")
			case row.is(blocksOnRequest):
				verdict = "forwarded without BLOCK"
			case row.seesAll(commandLine(t, row.name)):
				verdict = "forwarded for users of all keys"
			case row.form != nil:
				verdict = "forwarded in some forms"
			}
			verdicts = append(verdicts, row.name+": "+verdict)

			if row.is(describesCommands) {
				continue
			}
			if row.categories["@blocking"] || row.categories["@connection"] || row.categories["@transaction"] || row.categories["@pubsub"] {
				require.NotEqual(t, "forwarded", verdict, row.name)
			}
			if row.refusal == "" && !row.namesKeys() && !row.is(touchesNoKey) {
				require.Equal(t, "forwarded for users of all keys", verdict, row.name)
			}
		}
	}
	judge(*f.table.table.Load())
	require.Greater(t, len(verdicts), 300)
	const file = "testdata/verdicts.txt"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	known := strings.Split(strings.TrimSpace(string(text)), "\n")
	if *update {
		known = slices.DeleteFunc(known, func(line string) bool {
			name, _, _ := strings.Cut(line, ": ")
			return slices.ContainsFunc(verdicts, func(v string) bool { return strings.HasPrefix(v, name+": ") })
		})
		known = append(known, verdicts...)
		slices.Sort(known)
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(known, "\n")+"\n"), 0o600))
	}
	require.Subset(t, known, verdicts, "judge the difference, then run go test -run TestEveryCommandIsJudged ./engine/forward -update")
}

// None of the node's commands, if it is forwarded, changes the reply to a script that follows
// it on the same connection, or keeps it waiting.
func TestNoForwardedCommandChangesTheConnection(t *testing.T) {
	f := open(t, nil, redistest.Start(t))
	require.Equal(t, "+OK\r\n", forwardAll(t, f, 2, "SET probe x")[0])
	var try func(rows commandTable)
	try = func(rows commandTable) {
		for _, row := range rows {
			if len(row.subs) > 0 {
				try(row.subs)
				continue
			}
			for _, fill := range []string{"1", "yes", "probe", "{}"} {
				words := strings.Split(row.name, "|")
				for len(words) < max(row.arity, -row.arity) {
					words = append(words, fill)
				}
				line := strings.Join(words, " ")
				require.Equal(t, []string{":5\r\n", "+PONG\r\n"}, forwardAll(t, f, 2, line, `EVAL "return 5" 0`, `EVAL "return redis.call('PING')" 0`)[1:], line)
			}
		}
	}
	try(*f.table.table.Load())
}
