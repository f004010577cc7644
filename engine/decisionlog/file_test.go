package decisionlog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// A file is made for its owner alone, and appended to.
func TestFilesAreAppendedTo(t *testing.T) {
	t.Parallel()
	b := start(t, Settings{})
	b.show(slide("a"))
	require.Len(t, b.lines(t), 1)
	st, err := os.Stat(b.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	again := silent(t)
	again.path = b.path
	again.open(t, Settings{})
	again.show(slide("a"))
	require.Len(t, again.lines(t), 2)
}

// A window of which the former file has the line needs none in the next file.
func TestTheNextFileRepeatsNoLine(t *testing.T) {
	t.Parallel()
	b := start(t, Settings{})
	b.show(slide("a"))
	former := b.current.Load().file
	require.NoError(t, os.Rename(b.path, b.path+".1"))
	b.open(t, Settings{})
	require.False(t, former.Add([]byte("late\n")))
	b.show(slide("a"), slide("b"))
	lines := b.lines(t)
	require.Len(t, lines, 1)
	require.Equal(t, "b", lines[0]["key"])
	require.Len(t, readLines(t, b.path+".1"), 1)
}

// Lines go on while the file is renamed and opened again. None is lost, twice there or torn.
func TestRotationUnderLoadLosesNoLine(t *testing.T) {
	t.Parallel()
	b := start(t, Settings{Sample: 1})
	const writers, each, rotations = 4, 5000, 20
	var wg sync.WaitGroup
	var shown atomic.Int64
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				for shown.Add(1)-b.written.Load() > 1000 {
					shown.Add(-1)
					runtime.Gosched() // on a busy machine, a line would be dropped
				}
				b.show(slide(fmt.Sprint(w, ":", i)).allowed(1))
			}
		})
	}
	var files []string
	for i := range rotations {
		proxytest.Eventually(t, "lines", func() bool { return b.written.Load() > int64(i*writers*each/rotations/2) })
		old := fmt.Sprint(b.path, i)
		require.NoError(t, os.Rename(b.path, old))
		files = append(files, old)
		b.open(t, Settings{Sample: 1})
	}
	wg.Wait()
	seen := map[any]bool{}
	all := b.lines(t)
	for _, f := range files {
		all = append(all, readLines(t, f)...)
	}
	for _, l := range all {
		require.False(t, seen[l["key"]], "%v is there twice", l["key"])
		seen[l["key"]] = true
	}
	require.Len(t, seen, writers*each)
	require.Zero(t, b.dropped.Load())
	require.EqualValues(t, writers*each, b.written.Load())
}

// A pipe that nobody reads takes some lines, and as many wait as may. The others are dropped and counted, while
// decisions go on. Once somebody reads, the lines and those that are said to be left out add up, even if that is when the
// Recorder closes.
func TestASlowFileDropsLinesAndSlowsNothing(t *testing.T) {
	t.Parallel()
	b := silent(t)
	require.NoError(t, syscall.Mkfifo(b.path, 0o600))
	reader, err := os.OpenFile(b.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	b.open(t, Settings{Sample: 1})
	const asked = 30_000
	for i := range asked {
		b.show(slide(fmt.Sprint(i)).allowed(1)) // nothing reads: this would hang if it waited for the file
	}
	dropped := b.dropped.Load()
	require.Positive(t, dropped)
	require.Contains(t, b.log.String(), `level=WARN msg="the decision log is dropping lines or falling behind" why="the file cannot keep up with the log" lines_dropped=1`)
	text := make(chan []byte)
	go func() { // ends when the Recorder closes the pipe
		all, _ := io.ReadAll(reader) // an error shows in what is missing
		text <- all
	}()
	b.close()
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.WriteFile(copied, <-text, 0o600))
	sum := int64(0)
	for _, l := range readLines(t, copied) {
		if l["event"] == "left_out" {
			require.NotContains(t, l, "of")
			require.Equal(t, "the file cannot keep up with the log", l["why"])
			sum += int64(l["count"].(float64))
		} else {
			sum++
		}
	}
	require.EqualValues(t, asked, sum)
	require.EqualValues(t, dropped, b.Stats()[2].Value)
}

// A full device fails every write. The log says so, decisions go on, and the end does not wait.
func TestAFullDiskIsCountedAndLogged(t *testing.T) {
	t.Parallel()
	b := silent(t)
	b.path = "/dev/full"
	b.open(t, Settings{})
	b.show(slide("a"), slide("b"))
	proxytest.Eventually(t, "a write to fail", func() bool { return b.failed.Load() > 0 })
	b.close()
	require.Contains(t, b.log.String(), `msg="the decision log is dropping lines or falling behind" why="write /dev/full: no space left on device" failed_writes=1`)
	require.Regexp(t, `msg="the decision log is dropping lines or falling behind" since=\S+ failed_writes=\d+ lines_dropped=2\n`, b.log.String())
	require.EqualValues(t, 2, b.dropped.Load())
	require.Zero(t, b.written.Load())
	require.Len(t, b.Newest()[0].Keys, 2)
}
