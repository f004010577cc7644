// Package lines writes lines to a log, so that nothing waits for whoever takes them: a terminal, a pipe or a disk may
// take nothing for as long as it likes. While it does not keep up, lines are dropped, and a line says how many.
package lines

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// MaxWaiting is how many bytes of lines may wait. As many may be on their way to the log.
	MaxWaiting = 1 << 20
	// RetryAfter is the time from a write that failed to the next one.
	RetryAfter = time.Second
)

// Hooks are what a Log calls. All but Missing may be nil.
type Hooks struct {
	// Missing returns the line that says that lines were dropped, for the place where they would be.
	Missing func(lines int64) []byte
	// Wrote is called after each write with the number of lines that it has completed, and its error. The rest is
	// written later.
	Wrote func(lines int64, err error)
	// Dropped is called when lines are dropped: there was no room, or the last write has failed.
	Dropped func(lines int64)
	// Ended is called when nothing is written any more.
	Ended func()
}

// Log is where lines go, with those that wait. It is safe for concurrent use.
type Log struct {
	to    io.Writer
	hooks Hooks
	wake  chan struct{} // there are lines
	end   chan struct{} // closed by Finish
	ended chan struct{} // closed when nothing is written any more

	mu       sync.Mutex
	waiting  []byte // whole lines; guarded by mu
	missing  int64  // lines that were dropped and not reported yet; guarded by mu
	finished bool   // no more lines are taken; guarded by mu
}

// Open starts the goroutine that writes lines to something.
func Open(to io.Writer, hooks Hooks) *Log {
	l := &Log{to: to, hooks: hooks, wake: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{})}
	go l.run() // until Finish, and until the lines are written that wait then
	return l
}

// Add queues a line, or drops it if there is no room. It returns false, and does nothing, after Finish. It never waits.
func (l *Log) Add(line []byte) bool {
	l.mu.Lock()
	finished, room := l.finished, len(l.waiting)+len(line) <= MaxWaiting
	switch {
	case finished:
	case room:
		l.waiting = append(l.waiting, line...)
	default:
		l.missing++
	}
	l.mu.Unlock()
	switch {
	case finished:
		return false
	case !room:
		l.dropped(1)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// Write implements io.Writer by Add.
func (l *Log) Write(line []byte) (int, error) {
	l.Add(line)
	return len(line), nil
}

// Finish takes no more lines. Those that wait are still written, and then the channel that Finish returns is closed.
func (l *Log) Finish() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = true
	close(l.end)
	return l.ended
}

func (l *Log) run() {
	defer close(l.ended)
	for {
		l.mu.Lock()
		next, missing, finished := l.waiting, l.missing, l.finished
		l.waiting, l.missing = nil, 0
		l.mu.Unlock()
		if missing > 0 {
			next = append(next, l.hooks.Missing(missing)...)
		}
		switch {
		case len(next) > 0:
			l.write(next)
		case finished:
			if l.hooks.Ended != nil {
				l.hooks.Ended()
			}
			return
		default:
			select {
			case <-l.wake:
			case <-l.end:
			}
		}
	}
}

// write writes lines. After an error it tries again, until it has tried once since Finish.
func (l *Log) write(next []byte) {
	for last := false; ; {
		n, err := l.to.Write(next)
		if l.hooks.Wrote != nil {
			l.hooks.Wrote(count(next[:n]), err)
		}
		if err == nil {
			return
		}
		next = next[n:]
		if last {
			l.dropped(count(next))
			return
		}
		select {
		case <-l.end:
			last = true
		case <-time.After(RetryAfter):
		}
	}
}

func (l *Log) dropped(lines int64) {
	if l.hooks.Dropped != nil {
		l.hooks.Dropped(lines)
	}
}

// count returns the number of lines that end in b.
func count(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) }
