package decisionlog

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/internal/machine"
)

// maxQueue is how many bytes of lines may wait for the file. As many may be on their way to
// it. The last lines, which say what was left out, have lastRoom beside.
const (
	maxQueue = 1 << 20
	lastRoom = 4096
)

// retryAfter is the time from a write that failed to the next one.
const retryAfter = time.Second

// OpenFile opens a file to append lines to, and creates it for the owner alone if it does not
// exist. An empty path means no file: then it returns nil.
func OpenFile(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := machine.OpenAppend(path)
	if err != nil {
		return nil, unwritable(err)
	}
	return f, nil
}

func unwritable(err error) error { return fmt.Errorf("can't write the decision-log: %w", err) }

// endsWithinLine reports whether a file ends with a part of a line, as another process leaves it
// if the disk is full or the machine crashes.
func endsWithinLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	written, err := os.Open(f.Name()) // f is only for writing
	if err != nil {
		return false
	}
	defer func() { _ = written.Close() }()
	var last [1]byte
	_, err = written.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// CheckFile returns the error that OpenFile would return. It leaves no file behind.
func CheckFile(path string) error {
	if path == "" {
		return nil
	}
	if err := machine.CheckAppend(path); err != nil {
		return unwritable(err)
	}
	return nil
}

// file is a file that lines are appended to, and the queue of lines that wait for it.
type file struct {
	r    *Recorder
	w    *os.File
	wake chan struct{} // there are lines
	end  chan struct{} // closed by finish

	mu       sync.Mutex
	queue    []byte // whole lines, guarded by mu
	finished bool   // guarded by mu: no more lines are taken
}

// open starts the goroutine that writes to a file.
func (r *Recorder) open(f *os.File) *file {
	q := &file{r: r, w: f, wake: make(chan struct{}, 1), end: make(chan struct{})}
	r.writers.Add(1)
	go q.run() // until finish, and until the lines are written that wait then
	return q
}

// queue queues a line for the current file. It reports whether there was room, with at most
// `most` bytes in the queue.
func (r *Recorder) queue(line []byte, most int) bool {
	for {
		f := r.current.Load().file
		if f == nil {
			return true // the file was closed meanwhile
		}
		if kept, finished := f.add(line, most); !finished {
			return kept
		}
	}
}

// add queues a line, if there is room and the file is not finished.
func (f *file) add(line []byte, most int) (kept, finished bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished || len(f.queue)+len(line) > most {
		return false, f.finished
	}
	f.queue = append(f.queue, line...)
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return true, false
}

// finish takes no more lines. Those that wait are still written.
func (f *file) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = true
	close(f.end)
}

// run writes lines to the file.
func (f *file) run() {
	defer f.r.writers.Done()
	for {
		f.mu.Lock()
		lines, finished := f.queue, f.finished
		f.queue = nil
		f.mu.Unlock()
		switch {
		case len(lines) > 0:
			f.write(lines)
		case finished:
			if err := f.w.Close(); err != nil {
				f.fail(err)
			}
			return
		default:
			select {
			case <-f.wake:
			case <-f.end:
			}
		}
	}
}

// write writes lines. After an error it tries again, until it has tried once since the file
// was finished.
func (f *file) write(lines []byte) {
	for last := false; ; {
		n, err := f.w.Write(lines)
		f.r.written.Add(count(lines[:n]))
		if err == nil {
			return
		}
		f.fail(err)
		lines = lines[n:]
		if last {
			f.r.dropped.Add(count(lines))
			return
		}
		select {
		case <-f.end:
			last = true
		case <-time.After(retryAfter):
		}
	}
}

// failure is an error of a file.
type failure struct {
	err error
	at  time.Time
}

// fail records an error of the file.
func (f *file) fail(err error) {
	f.r.failed.Add(1)
	f.r.lastFailure.Store(&failure{err, f.r.config.Now()})
}

// count returns the number of lines that end in b.
func count(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) }
