package main

import (
	"io"
	"log/slog"
	"strings"
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
	require.Regexp(t, `\ntime=\S+ level=warning msg="the log did not keep up, and lines were dropped" lines=7\n$`, got)
}
