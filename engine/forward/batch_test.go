package forward

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCommandsFollowRedirectsAndFanOutBySlotInACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	f := openOn(t, openNodes(t, 5*time.Second, c.URL()), Config{Settings: Settings{Timeout: 20 * time.Second}})
	require.Eventually(t, func() bool { return forwardAll(t, f, 2, "MSET a 0 b 0 c 0")[0] == "+OK\r\n" }, 20*time.Second, time.Millisecond)
	require.Equal(t, []string{"+OK\r\n", "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$1\r\n2\r\n", ":3\r\n"},
		forwardAll(t, f, 2, "MSET a 1 b 2 c 3", "MGET a none c b", "DEL a b c"))
	require.Equal(t, errCrossSlot.Error(), forwardAll(t, f, 2, "RENAME a b")[0])

	// The slot of key a moves from the third node to the first.
	const slot = 15495
	from, to := c.Nodes[2], c.Nodes[0]
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	require.Equal(t, "+OK\r\n", forwardAll(t, f, 2, "SET {a}here 1")[0])
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	require.Equal(t, []string{"+OK\r\n", "$1\r\n2\r\n", "$1\r\n1\r\n"}, forwardAll(t, f, 2, "SET {a}there 2", "GET {a}there", "GET {a}here"), "by ASK")
	appends := strings.Split(strings.Repeat("APPEND {a}text x,", 200)+"DEL {a}text", ",")
	for range 100 {
		for i, reply := range forwardAll(t, f, 2, appends...)[:200] {
			require.Equal(t, fmt.Sprintf(":%d\r\n", i+1), reply, "in order")
		}
	}
	from.Do("MIGRATE", "127.0.0.1", to.Port, "{a}here", 0, 5000)
	for _, n := range c.Nodes {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	require.Equal(t, []string{"$1\r\n1\r\n", ":3\r\n"}, forwardAll(t, f, 3, "GET {a}here", "INCR {a}there"), "by MOVED")
}

// A script has an error of its own that looks like a redirect to an address where no node is. rlproxy
// neither runs it again nor connects to that address.
func TestScriptsAreRedirectedOnlyToNodes(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	f := openOn(t, openNodes(t, 5*time.Second, c.URL()), Config{Settings: Settings{Timeout: 20 * time.Second}})
	require.Eventually(t, func() bool { return forwardAll(t, f, 2, "MSET a 0 b 0 c 0")[0] == "+OK\r\n" }, 20*time.Second, time.Millisecond)
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer stranger.Close() //nolint:errcheck // nothing was written
	moved := "MOVED 1 " + stranger.Addr().String()
	script := `EVAL "redis.call('incr', KEYS[1]) return redis.error_reply('` + moved + `')" 1 a`
	require.Equal(t, []string{"-" + moved + "\r\n", "$1\r\n1\r\n"}, forwardAll(t, f, 2, script, "GET a"))
	require.NoError(t, stranger.(*net.TCPListener).SetDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = stranger.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A master that is cut off from its replicas refuses writes. If another sentinel knows another master, that one gets them.
func TestAMasterThatIsCutOffIsLeft(t *testing.T) {
	servers := startServers(t, 2)
	servers[0].Do("CONFIG", "SET", "min-replicas-to-write", "1")
	cut, other := redistest.StartSentinel(t, servers[0].Addr), redistest.StartSentinel(t, servers[1].Addr)
	fleet := openNodes(t, 5*time.Second, "redis+sentinel://"+cut.Addr+","+other.Addr+"/"+redistest.SentinelName)
	f := openOn(t, fleet, Config{Settings: Settings{Timeout: 20 * time.Second}})
	require.Eventually(t, func() bool { return forwardAll(t, f, 2, "SET k 1")[0] == "+OK\r\n" }, 20*time.Second, time.Millisecond)
	require.Equal(t, servers[1].Addr, fleet.Topology().Nodes[0].Name())
}

// The connections of all clients are dropped if the node has become a replica, but not because
// a script has an error with the same code.
func TestErrorOfAScriptDropsNoConnection(t *testing.T) {
	s := redistest.Start(t)
	f := open(t, nil, s)
	connections := func() (n int) {
		for line := range strings.Lines(s.Do("INFO", "stats")) {
			_, _ = fmt.Sscanf(line, "total_connections_received:%d", &n)
		}
		return n
	}
	require.Equal(t, "$-1\r\n", forwardAll(t, f, 2, "GET k")[0])
	before := connections()
	for _, code := range []string{"READONLY", "LOADING", "MASTERDOWN"} {
		line := fmt.Sprintf(`EVAL "return redis.error_reply('%s mine')" 1 k`, code)
		require.Equal(t, "-"+code+" mine\r\n", forwardAll(t, f, 2, line)[0])
	}
	require.Equal(t, "$-1\r\n", forwardAll(t, f, 2, "GET k")[0])
	require.Equal(t, before, connections())

	s.Do("REPLICAOF", "127.0.0.1", redistest.FreePort(t))
	for i, line := range []string{`EVAL "return redis.call('set', KEYS[1], 1)" 1 k`, `EVAL "#!lua\nreturn 1" 1 k`, "SET k 1"} {
		require.Contains(t, forwardAll(t, f, 2, line)[0], "-READONLY ")
		require.Equal(t, "$-1\r\n", forwardAll(t, f, 2, "GET k")[0])
		require.Greater(t, connections(), before+i, line)
	}
}
