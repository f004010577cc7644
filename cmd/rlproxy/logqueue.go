package main

import (
	"bytes"
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
// terminal, a pipe or a disk may take nothing for as long as it likes. While it does not keep up, or
// cannot be written to, lines are dropped and counted.
type logQueue struct {
	to      io.Writer
	options *slog.HandlerOptions
	ended   chan struct{} // closed once run has ended

	changed sync.Cond // of the following, which its mutex guards
	lines   []byte    // whole lines that wait
	dropped int       // lines for which there was no room, since run last looked
	closed  bool      // the lines that wait are the last ones

	// Only run uses the following.
	missing int  // lines that the log does not have, since it last said so
	torn    bool // the log ends within a line
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
		q.missing += dropped
		if q.put(lines) && q.missing > 0 {
			q.report()
		}
	}
}

// put writes lines to the log and reports whether it took them. Of lines that it did not take, put counts those
// whose end is missing.
func (q *logQueue) put(lines []byte) bool {
	if q.torn {
		_, _ = q.to.Write([]byte{'\n'}) // if it fails, the next write probably does, too
	}
	n, err := q.to.Write(lines)
	q.missing += bytes.Count(lines[n:], []byte{'\n'})
	if n > 0 {
		q.torn = lines[n-1] != '\n'
	}
	return err == nil
}

// report writes a line to the log that says how many lines are missing.
func (q *logQueue) report() {
	var line bytes.Buffer
	slog.New(slog.NewTextHandler(&line, q.options)).Warn("the log did not take some lines, and they were dropped",
		"lines", q.missing)
	missing := q.missing
	q.missing = 0
	if !q.put(line.Bytes()) {
		q.missing = missing
	}
}
