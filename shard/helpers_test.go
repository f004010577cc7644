package shard

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("10.0.0.%d:6379/0", i+1)
	}
	return names
}

func testKey(i int) []byte { return fmt.Appendf(nil, "tenant:%d", i) }

// startCluster starts a redis-server in cluster mode and returns a connection to it. Both end
// with the test.
func startCluster(t *testing.T) net.Conn {
	t.Helper()
	for range 20 { // Another process may take the port in between.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		if port > 55000 { // The bus port is higher by 10000 and must be valid.
			port -= 30000
		}
		server := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes",
			"--save", "", "--dir", t.TempDir())
		require.NoError(t, server.Start())
		gone := make(chan struct{})
		go func() { // Until the server exits.
			_ = server.Wait()
			close(gone)
		}()
		conn, up := dial(port, gone)
		if !up {
			_ = server.Process.Kill()
			continue
		}
		t.Cleanup(func() {
			_ = conn.Close()
			_ = server.Process.Kill()
			<-gone
		})
		return conn
	}
	t.Fatal("redis-server did not start")
	return nil
}

// dial connects as soon as the server answers a PING. It gives up if the server exits.
func dial(port int, gone <-chan struct{}) (net.Conn, bool) {
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			reply := make([]byte, 64)
			_ = conn.SetDeadline(deadline)
			_, _ = conn.Write([]byte("PING\r\n"))
			if n, _ := conn.Read(reply); strings.HasPrefix(string(reply[:n]), "+PONG") {
				return conn, true
			}
			_ = conn.Close()
		}
		select {
		case <-gone:
			return nil, false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil, false
}

// keySlot returns the slot of a key by the server's CLUSTER KEYSLOT.
func keySlot(t *testing.T, conn net.Conn, key []byte) int {
	t.Helper()
	_, err := fmt.Fprintf(conn, "*3\r\n$7\r\nCLUSTER\r\n$7\r\nKEYSLOT\r\n$%d\r\n%s\r\n", len(key), key)
	require.NoError(t, err)
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	require.NoError(t, err)
	slot, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(reply[:n]), ":")))
	require.NoError(t, err)
	return slot
}
