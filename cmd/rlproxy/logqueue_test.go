package main

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A log that takes nothing for a while gets the lines for which there was room, and then one that says
// how many are missing.
func TestLogSaysWhatItHasDropped(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	q := newLogQueue(writer, &slog.HandlerOptions{ReplaceAttr: nameLevel})
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
	write(maxLogQueue/len(line) + 7)
	all := make(chan string)
	go func() { // ends with the pipe
		b, _ := io.ReadAll(reader)
		all <- string(b)
	}()
	q.close()
	require.NoError(t, writer.Close())
	got := <-all
	require.Equal(t, 1+maxLogQueue/len(line), strings.Count(got, "x\n"))
	require.Regexp(t, `\ntime=\S+ level=warning msg="the log did not take some lines, and they were dropped" lines=7\n$`, got)
}

// disk is a log on a disk with room for so many bytes.
type disk struct {
	room    int
	written []byte
}

func (d *disk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.written = append(d.written, b[:n]...)
	d.room -= n
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// A log whose disk is full says how many lines are missing once there is room again. A line of which
// only a part was written stands alone.
func TestLogSaysWhatDidNotFitOnTheDisk(t *testing.T) {
	t.Parallel()
	d := &disk{room: 7}
	q := &logQueue{to: d, options: &slog.HandlerOptions{ReplaceAttr: nameLevel}, ended: make(chan struct{}), changed: sync.Cond{L: new(sync.Mutex)}}
	writes := func(lines ...string) {
		for _, line := range lines {
			_, err := q.Write([]byte(line + "\n"))
			require.NoError(t, err)
		}
		q.closed = true
		q.ended = make(chan struct{})
		q.run() // until it has written all
		q.closed = false
	}
	writes("one", "two", "three")
	require.Equal(t, "one\ntwo", string(d.written))
	writes("four")
	d.room = 1000
	writes("five")
	require.Regexp(t, `^one\ntwo\nfive\ntime=\S+ level=warning msg="the log did not take some lines, and they were dropped" lines=3\n$`, string(d.written))
	writes("six")
	require.Equal(t, 1, strings.Count(string(d.written), "dropped"))
	require.True(t, strings.HasSuffix(string(d.written), "\nsix\n"))
}
