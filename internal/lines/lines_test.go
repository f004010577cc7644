package lines

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func missing(n int64) []byte { return fmt.Appendf(nil, "%d lines are missing\n", n) }

// A log that takes nothing for a while gets the lines for which there was room, and then one that says
// how many are missing.
func TestALogSaysWhatWasDropped(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	var dropped atomic.Int64
	q := Open(writer, Hooks{Missing: missing, Dropped: func(n int64) { dropped.Add(n) }, Ended: func() { _ = writer.Close() }})
	line := []byte(strings.Repeat("x", 1023) + "\n")
	write := func(n int) {
		for range n {
			written, err := q.Write(line)
			require.NoError(t, err)
			require.Len(t, line, written)
		}
	}
	write(1)
	_, err := io.ReadFull(reader, make([]byte, 1)) // the first line is on its way
	require.NoError(t, err)
	write(MaxWaiting/len(line) + 7)
	require.EqualValues(t, 7, dropped.Load())
	ended := q.Finish()
	require.False(t, q.Add(line))
	all, err := io.ReadAll(reader)
	require.NoError(t, err)
	<-ended
	require.Equal(t, 1+MaxWaiting/len(line), strings.Count(string(all), "x\n"))
	require.True(t, strings.HasSuffix(string(all), "\n7 lines are missing\n"))
}

// disk is a log on a disk with room for so many bytes.
type disk struct {
	mu      sync.Mutex
	room    int
	written []byte
	lines   int64 // as Wrote counts them
	failed  int
}

func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(b), d.room)
	d.written = append(d.written, b[:n]...)
	d.room -= n
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// A write that fails within a line is gone on with a second later, so that no line is lost or torn.
func TestAWriteThatFailsIsGoneOnWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: 7}
		q := Open(d, Hooks{Missing: missing, Wrote: func(n int64, err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.lines += n; err != nil {
				d.failed++
			}
		}})
		later := func(wait time.Duration, room int, written string, lines int64) {
			time.Sleep(wait)
			d.mu.Lock()
			defer d.mu.Unlock()
			require.Equal(t, written, string(d.written))
			require.Equal(t, lines, d.lines)
			require.Equal(t, 2, d.failed)
			d.room = room
		}
		q.Add([]byte("one\ntwo\nthree\n"))
		later(RetryAfter*3/2, 1000, "one\ntwo", 1)
		q.Add([]byte("four\n"))
		later(RetryAfter, 0, "one\ntwo\nthree\nfour\n", 4)
		<-q.Finish()
	})
}

// A disk that stays full is tried once more at the end.
func TestAFullDiskDoesNotKeepTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, dropped := time.Now(), int64(0)
		writes := 0
		q := Open(writer(func([]byte) (int, error) { writes++; return 0, errors.New("full") }),
			Hooks{Missing: missing, Dropped: func(n int64) { dropped += n }})
		q.Add([]byte("one\ntwo\n"))
		synctest.Wait()
		<-q.Finish()
		require.Equal(t, 2, writes)
		require.EqualValues(t, 2, dropped)
		require.Zero(t, time.Since(began))
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
