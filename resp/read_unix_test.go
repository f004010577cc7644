//go:build unix

package resp

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clients here are bare descriptors, so only the server's memory grows. Each client
// has been served once before it falls silent.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const most, bound = 10_000, 12 << 10 // connections, bytes per connection
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	n := min(most, (int(min(files.Cur, 1<<20))-200)/2)
	dir, err := os.MkdirTemp("", "resp")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	srv := startOn(t, Config{}, handlerFuncs{open: trust, serve: likeRedis}, ln)

	reply := make([]byte, 7)
	before := memory()
	clients := make([]int, n)
	for i := range clients {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		require.NoError(t, err)
		clients[i] = fd
		require.NoError(t, syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}))
		_, err = syscall.Write(fd, []byte("PING\r\n"))
		require.NoError(t, err)
		got, err := syscall.Read(fd, reply)
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", string(reply[:got]))
	}
	each := int(memory()-before) / n
	t.Logf("%d connections, %d bytes each", n, each)
	require.Less(t, each, bound)
	require.EqualValues(t, n, srv.Stats().Current.Load())
	for _, fd := range clients {
		require.NoError(t, syscall.Close(fd))
	}
	require.Eventually(t, func() bool { return srv.Stats().Current.Load() == 0 }, 20*time.Second, 5*time.Millisecond)
}

// memory returns the bytes of heap and stacks in use.
func memory() uint64 {
	runtime.GC()
	runtime.GC() // the second empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
