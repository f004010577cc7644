package forward

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// In the lines, %[1]s to %[3]s are keys on different nodes.
func TestCommandsWithKeysOnSeveralNodesFanOutOrAreRefused(t *testing.T) {
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			t.Parallel()
			straight := dialDirect(t, redistest.Start(t), proto)
			f := open(t, nil, startServers(t, 3)...)
			keys := keysOn(f)
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
				"RPUSH {%[2]s}l 3 2", "MSET {%[2]s}w3 1 {%[2]s}w2 2",
				"SORT {%[2]s}l BY {%[2]s}w* LIMIT 0 9 GET # GET {%[2]s}w* STORE {%[2]s}by", "LRANGE {%[2]s}by 0 -1",
				"SORT_RO {%[2]s}l by nosort", "SORT %[1]s get", "SORT",
			} {
				line = fmt.Sprintf(line+"%.0[1]s%.0[2]s%.0[3]s", keys...)
				require.Equal(t, straight.ask(t, commandLine(t, line)), forwardAll(t, f, proto, line)[0], line)
			}
			for _, line := range []string{
				"MSETNX %[1]s 1 %[2]s 2", "RENAME %[1]s %[2]s", "SINTER %[1]s %[2]s", "SORT %[1]s STORE %[2]s",
				`EVAL "return 1" 2 %[1]s %[2]s`, "BITOP AND %[1]s %[2]s", "PFCOUNT %[1]s %[2]s", "XREAD STREAMS %[1]s %[2]s 0 0",
				"SORT %[1]s BY w*", "SORT_RO %[1]s LIMIT 0 get GET # get {w*}", "SORT %[1]s DESC BY {%[2]s}*->f",
			} {
				line = fmt.Sprintf(line+"%.0[1]s%.0[2]s%.0[3]s", keys...)
				require.Equal(t, errCrossSlot.Error(), forwardAll(t, f, proto, line)[0], line)
			}
		})
	}
}

// A command with many keys on several nodes goes piece by piece: no node gets more than
// pieceKeys of them at a time, and the reply is what one node would reply. A piece that
// fails ends the command.
func TestManyKeysFanOutPieceByPiece(t *testing.T) {
	straight := dialDirect(t, redistest.Start(t), 2)
	servers := startServers(t, 3)
	f := open(t, nil, servers...)
	const keys = 5*pieceKeys + 7
	var pairs, names strings.Builder
	for i := range keys {
		fmt.Fprintf(&pairs, " k%d v%d", i, i)
		fmt.Fprintf(&names, " k%d none%d", i, i)
	}
	for _, line := range []string{"MSET" + pairs.String(), "MGET" + names.String(), "EXISTS" + names.String(), "DEL" + names.String()} {
		name, _, _ := strings.Cut(line, " ")
		require.Equal(t, straight.ask(t, commandLine(t, line)), forwardAll(t, f, 2, line)[0], name)
		for _, s := range servers {
			stats := s.Client.Info(t.Context(), "commandstats").Val()
			calls, err := strconv.Atoi(regexp.MustCompile(`cmdstat_` + strings.ToLower(name) + `:calls=(\d+)`).FindStringSubmatch(stats)[1])
			require.NoError(t, err)
			require.GreaterOrEqual(t, calls, keys/pieceKeys, name)
		}
	}
	servers[1].Kill()
	require.Contains(t, forwardAll(t, f, 2, "DEL"+names.String())[0], "UNAVAILABLE "+servers[1].Addr)
}

// With Admin, commands that cluster clients send to every node go to all nodes.
func TestAdministrationGoesToAllNodes(t *testing.T) {
	servers := startServers(t, 3)
	f := open(t, func(c *Config) { c.Admin = true }, servers...)
	require.Equal(t, []string{"+OK\r\n", "+OK\r\n"}, forwardAll(t, f, 2, "MSET a 1 b 2 c 3 d 4 e 5", "CONFIG SET hz 20"))
	for _, s := range servers {
		require.Equal(t, "20", s.Client.ConfigGet(t.Context(), "hz").Val()["hz"])
	}
	require.Equal(t, []string{":5\r\n", "+OK\r\n", ":0\r\n"}, forwardAll(t, f, 2, "DBSIZE", "FLUSHALL", "DBSIZE"))
	require.Contains(t, forwardAll(t, f, 2, "MONITOR")[0], "is not forwarded")
	require.Contains(t, forwardAll(t, f, 2, "CONFIG SET hz x")[0], "-ERR CONFIG SET failed")
	for _, line := range []string{"LASTSAVE", "SAVE", "DEBUG SET-ACTIVE-EXPIRE 1", "REPLICAOF NO ONE", "SHUTDOWN ABORT", "KEYS *", "SWAPDB 0 1"} {
		require.Contains(t, forwardAll(t, f, 2, line)[0], "there are several nodes", line)
	}
}

// FuzzMerge merges arbitrary replies. The result is a reply or an error.
func FuzzMerge(f *testing.F) {
	f.Add(uint8(mergeSum), []byte(":1\r\n"), []byte(":2\r\n"))
	f.Add(uint8(mergeArrays), []byte("*2\r\n$1\r\nx\r\n$-1\r\n"), []byte("*1\r\n$1\r\ny\r\n"))
	f.Add(uint8(mergeArrays), []byte("*2\r\n$9223372036854775807\r\n"), []byte("*1\r\n_\r\n"))
	f.Add(uint8(mergeOK), []byte("+OK\r\n"), []byte("-ERR\r\n"))
	f.Add(uint8(mergeSum), []byte("\r\n"), []byte(":\r\n"))
	f.Fuzz(func(t *testing.T, how uint8, a, b []byte) {
		if len(a) == 0 || len(b) == 0 {
			return // collect turns an empty reply into an error
		}
		o := &fanout{how: merge(how % 4), branches: make([]branch, 2), order: []int{0, 1, 0}}
		o.branches[0].result.Raw, o.branches[1].result.Raw = a, b
		var res Result
		o.merge(&res)
		require.True(t, res.Err != nil || len(res.Raw) > 0)
	})
}
