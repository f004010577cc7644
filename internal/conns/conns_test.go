package conns

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pipe is one side of a connection from an address.
type pipe struct {
	net.Conn
	from net.IP
}

func (p pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: p.from, Port: 1} }

// connect adds a connection from the address 192.0.2.last, and returns its other side, too.
func (b *Bound) connect(t *testing.T, last byte) (here *Conn, there net.Conn) {
	t.Helper()
	nc, there := net.Pipe()
	t.Cleanup(func() { require.NoError(t, errors.Join(nc.Close(), there.Close())) })
	return b.add(pipe{nc, net.IPv4(192, 0, 2, last)}), there
}

func count(b *Bound) int {
	open, _ := b.Count()
	return open
}

// However many connections come from one address, those of another one are not replaced, even before
// they have sent a request.
func TestOneAddressReplacesOnlyItsOwnConnections(t *testing.T) {
	t.Parallel()
	c := &Bound{max: 4}
	connect := func(last byte) *Conn {
		here, _ := c.connect(t, last)
		return here
	}
	probe := connect(1)
	for range 20 {
		require.NotNil(t, connect(2))
		require.NotNil(t, probe.at, "the connection is still open")
	}
	other := connect(3) // replaces one of 2
	require.NotNil(t, probe.at)
	for range 20 {
		require.NotNil(t, connect(2))
		require.NotNil(t, other.at)
	}
	require.Equal(t, 4, count(c))
}

// Of connections of one address, the one that has been idle for longest is replaced and closed.
func TestTheConnectionThatIsIdleForLongestIsReplaced(t *testing.T) {
	t.Parallel()
	c := &Bound{max: 3}
	first, _ := c.connect(t, 1)
	second, far := c.connect(t, 1)
	third, _ := c.connect(t, 1)
	first.SetBusy(true)
	first.SetBusy(false)
	fourth, _ := c.connect(t, 1)
	require.Nil(t, second.at)
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	second.SetBusy(false) // its request ends only now
	third.SetBusy(true)
	fifth, _ := c.connect(t, 1)
	require.Nil(t, first.at)
	require.NoError(t, third.Close())
	require.Equal(t, 2, count(c))
	c.CloseIdle()
	require.Zero(t, count(c))
	for _, closed := range []*Conn{fourth, fifth} {
		_, err := closed.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
}

// A connection whose client does not read its answer is idle, until it does.
func TestConnectionsAreIdleWhileTheAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	c := &Bound{max: 1}
	here, far := c.connect(t, 1)
	here.SetBusy(true)
	idle := func() bool {
		_, idle := c.Count()
		return idle == 1
	}
	require.False(t, idle())
	go func() { _, _ = here.Write([]byte("answer")) }() // until the test reads it
	require.Eventually(t, idle, 20*time.Second, time.Millisecond)
	_, err := io.ReadFull(far, make([]byte, 6))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !idle() }, 20*time.Second, time.Millisecond)
}
