package main

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxLogQueue is how many bytes of lines may wait for the log. As many may be on their way to it.
	maxLogQueue = 1 << 20
	// closeLogWithin is how long the end of the process waits for the log.
	closeLogWithin = time.Second
)

// logQueue is a queue of lines in front of the log, so that nothing waits for whoever reads it: a
// terminal, a pipe or a disk may take nothing for as long as it likes. While it does not keep up,
// lines are dropped and counted.
type logQueue struct {
	to      io.Writer
	options *slog.HandlerOptions
	ended   chan struct{} // closed once run has ended

	changed sync.Cond // of the following, which its mutex guards
	lines   []byte    // whole lines that wait
	dropped int       // lines, since the log last said so
	closed  bool      // the lines that wait are the last ones
}

// newLogQueue returns a queue in front of a log, which says with these options what it has dropped.
func newLogQueue(to io.Writer, options *slog.HandlerOptions) *logQueue {
	q := &logQueue{to: to, options: options, ended: make(chan struct{}), changed: sync.Cond{L: new(sync.Mutex)}}
	go q.run() // until close; nobody waits longer for it than closeLogWithin
	return q
}

// Write queues a line. It never fails and never waits.
func (q *logQueue) Write(line []byte) (int, error) {
	q.changed.L.Lock()
	defer q.changed.L.Unlock()
	if q.closed || len(q.lines)+len(line) > maxLogQueue {
		q.dropped++
	} else {
		q.lines = append(q.lines, line...)
	}
	q.changed.Signal()
	return len(line), nil
}

// close waits until the lines are written, or for closeLogWithin.
func (q *logQueue) close() {
	q.changed.L.Lock()
	q.closed = true
	q.changed.L.Unlock()
	q.changed.Signal()
	select {
	case <-q.ended:
	case <-time.After(closeLogWithin):
	}
}

// run writes lines to the log.
func (q *logQueue) run() {
	defer close(q.ended)
	for {
		q.changed.L.Lock()
		for len(q.lines) == 0 && !q.closed {
			q.changed.Wait()
		}
		lines, dropped := q.lines, q.dropped
		q.lines, q.dropped = nil, 0
		q.changed.L.Unlock()
		if len(lines) == 0 {
			return
		}
		_, _ = q.to.Write(lines) // there is nowhere else to say that it failed
		if dropped > 0 {
			slog.New(slog.NewTextHandler(q.to, q.options)).Warn("the log did not keep up, and lines were dropped", "lines", dropped)
		}
	}
}
