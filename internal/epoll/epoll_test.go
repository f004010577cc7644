//go:build linux

package epoll

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// connection returns both ends of a connection.
func connection(t *testing.T) (near, far net.Conn, raw syscall.RawConn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	far, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	near, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() }) // a test may have closed them
	raw, err = near.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	return near, far, raw
}

// next waits for events in a goroutine that the scheduler parks.
func next(t *testing.T, s *Poller) []Event {
	got := make(chan []Event, 1)
	go func() {
		events, err := s.Wait(nil)
		if err == nil {
			got <- events
		}
	}()
	select {
	case events := <-got:
		return events
	case <-time.After(10 * time.Second):
		t.Fatal("no event in 10 s")
		return nil
	}
}

func TestEventsArrive(t *testing.T) {
	s, err := New()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	near, far, raw := connection(t)
	const id = 1<<40 + 1<<31 + 7
	require.NoError(t, s.Add(raw, id))
	say := func() {
		_, err := far.Write([]byte("x"))
		require.NoError(t, err)
	}
	for range 3 { // each time while the earlier data is still unread
		time.AfterFunc(time.Millisecond, say)
		require.Equal(t, []Event{{ID: id}}, next(t, s))
	}
	require.NoError(t, s.Remove(raw))
	require.NoError(t, s.Add(raw, id+1))
	require.Equal(t, []Event{{ID: id + 1}}, next(t, s), "the data had arrived before the descriptor was added")
	buf := make([]byte, 8)
	n, err := near.Read(buf)
	require.NoError(t, err)
	require.Equal(t, 3, n)

	other, peer, second := connection(t)
	require.NoError(t, s.Add(second, 5))
	require.NoError(t, peer.(*net.TCPConn).CloseWrite())
	require.Equal(t, []Event{{ID: 5, Closed: true}}, next(t, s))
	say()
	require.Equal(t, []Event{{ID: id + 1}}, next(t, s))

	require.NoError(t, s.Remove(raw))
	require.NoError(t, other.Close())
	require.Error(t, s.Remove(second), "the connection is closed")
	say()
	_, peer, third := connection(t)
	require.NoError(t, s.Add(third, -1))
	_, err = peer.Write([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, []Event{{ID: -1}}, next(t, s), "there are no events of removed or closed descriptors")
}

func TestCloseEndsAWait(t *testing.T) {
	s, err := New()
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Wait(nil)
		ended <- err
	}()
	time.AfterFunc(time.Millisecond, func() { _ = s.Close() })
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("Wait did not end")
	}
	_, _, raw := connection(t)
	require.Error(t, s.Add(raw, 1))
}
