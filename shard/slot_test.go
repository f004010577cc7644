package shard

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 12739 (0x31C3) is the check value of CRC16/XMODEM.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":            12739,
		"":                     0,
		"foo":                  12182,
		"{user1000}.following": Slot([]byte("user1000")),
		"foo{}{bar}":           8363, // an empty tag: all of the key counts
		"foo{{bar}}zap":        Slot([]byte("{bar")),
		"foo{bar}{zap}":        Slot([]byte("bar")),
		"foo{bar":              Slot([]byte("foo{bar")) % Slots,
	} {
		require.Equal(t, want, Slot([]byte(key)), "key %q", key)
	}
}

// A real server's CLUSTER KEYSLOT agrees on stored keys and on arbitrary bytes.
func TestSlotAsRedis(t *testing.T) {
	conn := startCluster(t)
	rng := rand.New(rand.NewPCG(1, 2))
	keys := [][]byte{[]byte("{"), []byte("}"), []byte("{}"), []byte("}{a}"), []byte("a{}b{c}")}
	for i := range 400 {
		key := make([]byte, 1+rng.IntN(24))
		for j := range key {
			key[j] = "{}%ab\x00\xff"[rng.IntN(7)]
		}
		keys = append(keys, key, AppendStoredKey(nil, key, i%5))
	}
	for _, key := range keys {
		require.Equal(t, keySlot(t, conn, key), Slot(key), "key %q", key)
	}
}

// startCluster starts a redis-server in cluster mode and returns a connection to
// it. Both end with the test.
func startCluster(t *testing.T) net.Conn {
	t.Helper()
	for range 20 { // another process may take the port in between
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		if port > 55000 { // the bus port is 10000 above and must exist
			port -= 30000
		}
		server := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes",
			"--save", "", "--dir", t.TempDir())
		require.NoError(t, server.Start())
		gone := make(chan struct{})
		go func() { // ends with the server
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

// dial connects as soon as the server answers a PING, unless it ends first.
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
