package decisionlog

import (
	"errors"
	"os"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/lines"
)

// errSlow is why lines are dropped although no write has failed.
var errSlow = errors.New("the file cannot keep up with the log")

// open opens the queue of a file, which is closed when its last line is written.
func (r *Recorder) open(f *os.File) *lines.Log {
	r.writers.Add(1)
	return lines.Open(f, lines.Hooks{
		Missing: func(n int64) []byte { return r.leftOutLine("", n, errSlow.Error()) },
		Wrote: func(n int64, err error) {
			r.written.Add(n)
			if err != nil {
				r.fail(err)
			} else {
				r.trouble.End()
			}
		},
		Dropped: func(n int64) {
			r.dropped.Add(n)
			r.trouble.Note("lines_dropped", n, func() []any { return []any{"why", errSlow} })
		},
		Ended: func() {
			if err := f.Close(); err != nil {
				r.fail(err)
			}
			r.writers.Done()
		},
	})
}

// fail counts a write that failed.
func (r *Recorder) fail(err error) {
	r.failed.Add(1)
	r.trouble.Note("failed_writes", 1, func() []any { return []any{"why", err} })
}

// falling is the trouble of a file that does not take its lines.
var falling = episodes.Trouble{
	Began: "the decision log is dropping lines or falling behind", Ended: "the decision log keeps up again",
	Calm: episodes.Every,
}

// queue queues a line for the current file, if there is one.
func (r *Recorder) queue(line []byte) {
	for f := r.current.Load().file; f != nil && !f.Add(line); {
		f = r.current.Load().file // it has replaced a file that takes no more lines
	}
}

// Stats returns what INFO and metrics show of the decision log.
func (r *Recorder) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "decision_log_lines", Value: r.written.Load(), Metric: "decision_log_lines_total",
			Help: "Lines written to the decision log."},
		{Name: "decision_log_left_out", Value: r.overRate.Load(), Metric: "decision_log_left_out_total",
			Help: "Lines left out of the decision log because there were too many in a second."},
		{Name: "decision_log_dropped", Value: r.dropped.Load(), Metric: "decision_log_dropped_total",
			Help: "Lines dropped because the file of the decision log did not take them in time."},
		{Name: "decision_log_failed_writes", Value: r.failed.Load(), Metric: "decision_log_failed_writes_total",
			Help: "Writes to the decision log that failed."},
	}
}
