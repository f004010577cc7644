package sockio

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair returns both ends of a connection.
func pair(t *testing.T, network string) (near, far net.Conn) {
	addr := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "sockio")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		addr = filepath.Join(dir, "s")
	}
	ln, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	far, err = net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	near, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() }) // a test may have closed them
	return near, far
}

func TestBytesArrive(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		near, far := pair(t, network)
		sent := make([]byte, 5<<20) // more than the sockets buffer, and more than one call writes
		_, _ = rand.Read(sent)
		require.IsType(t, &reader{}, NewReader(near))
		require.IsType(t, &writer{}, NewWriter(near))
		echoed := make(chan error, 1)
		go func() {
			_, err := io.Copy(NewWriter(far), NewReader(far))
			echoed <- errors.Join(err, far.(interface{ CloseWrite() error }).CloseWrite())
		}()
		wrote := make(chan error, 1)
		go func() {
			n, err := NewWriter(near).Write(sent)
			if n != len(sent) {
				err = errors.Join(err, io.ErrShortWrite)
			}
			wrote <- errors.Join(err, near.(interface{ CloseWrite() error }).CloseWrite())
		}()
		got, err := io.ReadAll(NewReader(near))
		require.NoError(t, err)
		require.NoError(t, <-wrote)
		require.NoError(t, <-echoed)
		require.True(t, bytes.Equal(sent, got), "%d bytes of %d", len(got), len(sent))
	}
}

// Errors of reads and writes have exactly the texts that a net.Conn returns.
func TestErrorsAreThoseOfNet(t *testing.T) {
	ends := map[string]func(conn, peer net.Conn){
		"deadline": func(conn, _ net.Conn) { require.NoError(t, conn.SetDeadline(time.Unix(1, 0))) },
		"closed":   func(conn, _ net.Conn) { require.NoError(t, conn.Close()) },
		"reset": func(_, peer net.Conn) {
			require.NoError(t, peer.(*net.TCPConn).SetLinger(0))
			require.NoError(t, peer.Close())
		},
	}
	for name, end := range ends {
		outcome := func(ours bool) (texts [2]string, errs [2]error) {
			conn, peer := pair(t, "tcp")
			r, w := io.Reader(conn), io.Writer(conn)
			if ours {
				r, w = NewReader(conn), NewWriter(conn)
			}
			end(conn, peer)
			var n [2]int
			n[0], errs[0] = r.Read(make([]byte, 8))
			n[1], errs[1] = w.Write([]byte("hello"))
			require.Equal(t, [2]int{}, n)
			for i, err := range errs {
				require.Error(t, err)
				texts[i] = strings.NewReplacer(conn.LocalAddr().String(), "here", conn.RemoteAddr().String(), "there").Replace(err.Error())
			}
			return texts, errs
		}
		want, theirs := outcome(false)
		got, ours := outcome(true)
		require.Equal(t, want, got, name)
		for i := range ours {
			for _, is := range []error{os.ErrDeadlineExceeded, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
				require.Equal(t, errors.Is(theirs[i], is), errors.Is(ours[i], is), "%s, %v", name, is)
			}
		}
	}
}

// A deadline ends a write that the peer does not read. Write returns the number of bytes written.
func TestWriteEndsAtTheDeadline(t *testing.T) {
	near, far := pair(t, "tcp")
	go func() { // ends with the test: once a byte has arrived, the write is under way
		_, _ = far.Read(make([]byte, 1))
		_ = near.SetWriteDeadline(time.Unix(1, 0))
	}()
	n, err := NewWriter(near).Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Positive(t, n)
	require.NoError(t, near.Close())
	read, err := io.Copy(io.Discard, far)
	require.NoError(t, err)
	require.EqualValues(t, n-1, read)
}

func TestTLSConnectionsAreNotWrapped(t *testing.T) {
	near, _ := pair(t, "tcp")
	conn := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	require.Nil(t, Raw(conn))
	require.Equal(t, io.Reader(conn), NewReader(conn))
	require.Equal(t, io.Writer(conn), NewWriter(conn))
}

func TestNothingIsAllocated(t *testing.T) {
	near, far := pair(t, "tcp")
	r, w, buf := NewReader(near), NewWriter(far), make([]byte, 8)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := w.Write(buf); err != nil {
			panic(err)
		}
		if _, err := r.Read(buf); err != nil {
			panic(err)
		}
	}))
}

func TestEmptyReadsAreSkipped(t *testing.T) {
	near, far := pair(t, "tcp")
	raw, err := near.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	called := func() (called bool) {
		require.NoError(t, SkipEmptyReads(raw).Read(func(uintptr) bool {
			called = true
			return true
		}))
		return called
	}
	known := !called() // false where empty always returns false, as with the race detector
	_, err = far.Write([]byte("x"))
	require.NoError(t, err)
	require.Eventually(t, called, 10*time.Second, time.Millisecond)
	_, err = near.Read(make([]byte, 8))
	require.NoError(t, err)
	require.Equal(t, known, !called())
	require.NoError(t, far.Close())
	require.Eventually(t, called, 10*time.Second, time.Millisecond, "the end of the stream")
	require.NoError(t, near.Close())
	require.Error(t, SkipEmptyReads(raw).Read(func(uintptr) bool { return true }))
}
