package sockio

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// once reads from conn with p, without blocking, and reports whether something had arrived.
func once(t *testing.T, conn net.Conn, p *Poll) (ready bool) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { _, ready, err = p.Read(fd, make([]byte, 8)) }))
	require.NoError(t, err)
	return ready
}

func TestAReaderPollsForAPeerThatAnswersSoon(t *testing.T) {
	near, far := pair(t, "tcp")
	go func() { // ends with the connection
		for buf := make([]byte, 8); ; {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			_, _ = far.Write(buf[:n])
		}
	}()
	var p Poll
	require.Eventually(t, func() bool {
		p.short = 1
		_, err := near.Write([]byte("x"))
		require.NoError(t, err)
		if once(t, near, &p) {
			return p.short == 2 && p.began.IsZero() // otherwise the answer was there before the poll
		}
		for !once(t, near, &p) { // the poll failed, and these reads do not poll again
		}
		return false
	}, 10*time.Second, time.Microsecond)
}

func TestAnUnsuccessfulPollIsNotRepeated(t *testing.T) {
	near, far := pair(t, "tcp")
	p := Poll{short: pollCost + 1, reads: reads.Load()}
	began := time.Now()
	require.False(t, once(t, near, &p))
	if spareCore {
		require.GreaterOrEqual(t, time.Since(began), pollTime)
		require.Equal(t, 1, p.short)
		require.False(t, p.began.IsZero())
	}
	_, err := far.Write([]byte("x"))
	require.NoError(t, err)
	p.began = time.Now().Add(-soon)
	require.Eventually(t, func() bool { return once(t, near, &p) }, time.Second, time.Millisecond)
	require.LessOrEqual(t, p.short, 1, "a long wait is no reason to poll again")
	require.True(t, p.began.IsZero())
}

func TestAReaderDoesNotPollWhileOtherSocketsAreRead(t *testing.T) {
	near, _ := pair(t, "tcp")
	p := Poll{short: maxShort, reads: reads.Load()}
	reads.Add(maxOthers + 1)
	require.False(t, once(t, near, &p))
	require.Equal(t, maxShort, p.short)
	require.True(t, p.began.IsZero())
}
