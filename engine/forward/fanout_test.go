package forward

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
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
	for _, line := range []string{"LASTSAVE", "SAVE", "DEBUG SET-ACTIVE-EXPIRE 1", "REPLICAOF NO ONE", "SHUTDOWN ABORT", "SWAPDB 0 1"} {
		require.Contains(t, forwardAll(t, f, 2, line)[0], "there are several nodes", line)
	}
}

// Clients ask for scripts on all nodes, and load those that are missing. A node that is away must not
// keep them from it: it has none of the scripts for them.
func TestScriptsAreLoadedOnTheNodesThatAreThere(t *testing.T) {
	servers := startServers(t, 3)
	f := open(t, nil, servers...)
	one, two := "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "7f923f79fe76194c868d7e1d0820de36700eb649" // return 1, return 2
	exists := "SCRIPT EXISTS " + one + " none " + two
	for _, proto := range []int{2, 3} {
		require.Equal(t, []string{"*3\r\n:0\r\n:0\r\n:0\r\n", "$40\r\n" + one + "\r\n", "*3\r\n:1\r\n:0\r\n:0\r\n"},
			forwardAll(t, f, proto, exists, `SCRIPT LOAD "return 1"`, exists))
		servers[1].Do("SCRIPT", "LOAD", "return 2")
		require.Equal(t, "*3\r\n:1\r\n:0\r\n:0\r\n", forwardAll(t, f, proto, exists)[0], "only one node has the other script")
		require.Contains(t, forwardAll(t, f, proto, `SCRIPT LOAD "return )"`)[0], "-ERR Error compiling script")
		require.Contains(t, forwardAll(t, f, proto, "SCRIPT EXISTS")[0], "-ERR wrong number of arguments")
		require.Equal(t, "+OK\r\n", forwardAll(t, f, proto, "SCRIPT FLUSH")[0])
	}
	servers[1].Kill()
	require.Equal(t, []string{"$40\r\n" + one + "\r\n", "*3\r\n:0\r\n:0\r\n:0\r\n"}, forwardAll(t, f, 2, `SCRIPT LOAD "return 1"`, exists))
	require.Contains(t, forwardAll(t, f, 2, `SCRIPT LOAD "return )"`)[0], "-ERR Error compiling script")
	require.Contains(t, forwardAll(t, f, 2, "SCRIPT FLUSH")[0], "UNAVAILABLE "+servers[1].Addr)
	servers[1].Run()
	require.Eventually(t, func() bool { return forwardAll(t, f, 2, "DBSIZE")[0] == ":0\r\n" }, 20*time.Second, time.Millisecond)
	require.Equal(t, []string{"*3\r\n:0\r\n:0\r\n:0\r\n", "$40\r\n" + one + "\r\n", "*3\r\n:1\r\n:0\r\n:0\r\n"},
		forwardAll(t, f, 2, exists, `SCRIPT LOAD "return 1"`, exists), "the node that is back has lost its scripts")
	for _, s := range servers {
		s.Kill()
	}
	require.Contains(t, forwardAll(t, f, 2, `SCRIPT LOAD "return 1"`)[0], "UNAVAILABLE")
	require.Contains(t, forwardAll(t, f, 2, exists)[0], "UNAVAILABLE")
}

// A node that hangs is waited for once. Then it is down, and a script is loaded on the others at once.
func TestANodeThatHangsIsWaitedForOnce(t *testing.T) {
	servers := startServers(t, 2)
	fleet := openNodes(t, 100*time.Millisecond, servers[0].URL(), servers[1].URL())
	f := openOn(t, fleet, Config{Settings: Settings{Timeout: 2 * time.Second}})
	one := "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
	require.Equal(t, one, forwardAll(t, f, 2, `SCRIPT LOAD "return 1"`)[0])
	servers[1].Pause()
	defer servers[1].Resume()
	require.Equal(t, one, forwardAll(t, f, 2, `SCRIPT LOAD "return 1"`)[0])
	require.Eventually(t, fleet.Topology().Nodes[1].Down, 20*time.Second, time.Millisecond)
	began := time.Now()
	require.Equal(t, one, forwardAll(t, f, 2, `SCRIPT LOAD "return 1"`)[0])
	require.Less(t, time.Since(began), time.Second)
}

// Functions are loaded on all nodes, so that any of them can list and dump them. KEYS lists the keys of all nodes.
func TestListsOfAllNodes(t *testing.T) {
	f := open(t, func(c *Config) { c.Admin = true }, startServers(t, 3)...)
	got := forwardAll(t, f, 2, `FUNCTION LOAD "#!lua name=l\nredis.register_function('f', function() return 1 end)"`, "FUNCTION LIST LIBRARYNAME l", "FUNCTION DUMP")
	require.Equal(t, "$1\r\nl\r\n", got[0])
	require.Contains(t, got[1], "*1\r\n*6\r\n$12\r\nlibrary_name\r\n$1\r\nl\r\n")
	require.Contains(t, got[2], "register_function")
	got = forwardAll(t, f, 2, "MSET a 1 b 2 c 3 d 4 e 5", "KEYS [a-d]", "KEYS none")
	require.Equal(t, "*0\r\n", got[2])
	header, keys, _ := strings.Cut(got[1], "\r\n")
	require.Equal(t, "*4", header)
	require.ElementsMatch(t, []string{"$1", "a", "$1", "b", "$1", "c", "$1", "d", ""}, strings.Split(keys, "\r\n"))
}

// A node that is busy with a script is down, but is asked all the same to end it.
func TestScriptsOfBusyNodesCanBeEnded(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t, "--busy-reply-threshold", "50"), redistest.Start(t, "--busy-reply-threshold", "50")}
	f := open(t, nil, servers...)
	require.Equal(t, []string{"-NOTBUSY No scripts in execution right now.\r\n", "-NOTBUSY No scripts in execution right now.\r\n", ":0\r\n"},
		forwardAll(t, f, 2, "SCRIPT KILL", "FUNCTION KILL", "DBSIZE"))
	require.Equal(t, "$1\r\nl\r\n", forwardAll(t, f, 2, `FUNCTION LOAD "#!lua name=l\nredis.register_function{function_name='f', callback=function() while true do end end, flags={'no-writes'}}"`)[0])
	for line, end := range map[string]string{`EVAL "while true do end" 0`: "SCRIPT KILL", "FCALL_RO f 0": "FUNCTION KILL"} {
		busy := servers[1]
		conn := dialDirect(t, busy, 2)
		ended := make(chan string, 1)
		go func() { ended <- conn.ask(t, commandLine(t, line)) }() // until the script is ended
		node := f.fleet.Topology().Nodes[1]
		require.Eventually(t, func() bool { _, err := busy.Ask("PING"); return err != nil && strings.HasPrefix(err.Error(), "BUSY") }, 20*time.Second, time.Millisecond)
		node.Record(backend.Reply("BUSY"))
		node.Record(backend.Reply("BUSY"))
		require.True(t, node.Down())
		require.Contains(t, forwardAll(t, f, 2, "DBSIZE")[0], "UNAVAILABLE "+busy.Addr)
		require.Equal(t, "+OK\r\n", forwardAll(t, f, 2, end)[0])
		require.Contains(t, <-ended, "-ERR ")
		require.Eventually(t, func() bool { return !node.Down() }, 20*time.Second, time.Millisecond)
	}
}

// A node whose address is unknown cannot be asked whatever the command.
func TestScriptsOfUnknownNodesCannotBeEnded(t *testing.T) {
	sound := open(t, nil, redistest.Start(t))
	require.Equal(t, ":0\r\n", forwardAll(t, sound, 2, "DBSIZE")[0])
	f := openOn(t, openNodes(t, time.Second, "redis+cluster://127.0.0.1:1"), Config{})
	f.table.table.Store(sound.table.table.Load())
	require.Contains(t, forwardAll(t, f, 2, "SCRIPT KILL")[0], "UNAVAILABLE ")
}

// FuzzMerge merges arbitrary replies. The result is a reply or an error.
func FuzzMerge(f *testing.F) {
	f.Add(uint8(mergeSum), []byte(":1\r\n"), []byte(":2\r\n"))
	f.Add(uint8(mergeArrays), []byte("*2\r\n$1\r\nx\r\n$-1\r\n"), []byte("*1\r\n$1\r\ny\r\n"))
	f.Add(uint8(mergeArrays), []byte("*2\r\n$9223372036854775807\r\n"), []byte("*1\r\n_\r\n"))
	f.Add(uint8(mergeOK), []byte("+OK\r\n"), []byte("-ERR\r\n"))
	f.Add(uint8(mergeSum), []byte("\r\n"), []byte(":\r\n"))
	f.Add(uint8(mergeLists), []byte("*1\r\n$1\r\nx\r\n"), []byte("*0\r\n"))
	f.Add(uint8(mergeEvery), []byte("*2\r\n:1\r\n:0\r\n"), []byte("*2\r\n:1\r\n:1\r\n"))
	f.Add(uint8(mergeEvery), []byte("-LOADING\r\n"), []byte("*2\r\n:1\r\n:1\r\n"))
	f.Add(uint8(mergeEvery), []byte("*9223372036854775807\r\n:1\r\n"), []byte("*1\r\n:1\r\n"))
	f.Add(uint8(mergeReached), []byte("-BUSY\r\n"), []byte("$1\r\nx\r\n"))
	f.Add(uint8(mergeOne), []byte("-NOTBUSY\r\n"), []byte("-UNKILLABLE\r\n"))
	f.Fuzz(func(t *testing.T, how uint8, a, b []byte) {
		if len(a) == 0 || len(b) == 0 {
			return // collect turns an empty reply into an error
		}
		o := &fanout{how: merge(how % 8), branches: make([]branch, 2), order: []int{0, 1, 0}}
		o.branches[0].result.Raw, o.branches[1].result.Raw = a, b
		var res Result
		o.merge(&res)
		require.True(t, res.Err != nil || len(res.Raw) > 0)
	})
}
