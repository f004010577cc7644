// Package decisionlog records why requests were denied: in a file, with a line of JSON for
// every decision that is worth one, and in memory for the newest denials.
//
// A line is written for
//
//   - the first denial of a key in each of its windows: a denial of a key, command and
//     window for which no line was written within that window (windows.go). A shadow is
//     a key of its own here: a line marks what SHADOW would have denied;
//   - every answer by a FAIL policy;
//   - a sample of all other decisions, one of Settings.Sample, if that is set.
//
// There are at most denialLines and failLines lines a second of the first two. Those
// left out are counted, and a line before the next one reports their number.
//
// None of this slows decisions down. An admitted one costs a single comparison. A flood of
// denials of one key costs a bounded search in a table for each pipeline. A line goes
// into a queue of bounded length, which a goroutine writes to the file; while the file
// cannot keep up, lines are dropped and counted (package lines).
//
// Reading order: recorder.go (this file), windows.go, rate.go, line.go, newest.go, file.go.
package decisionlog

import (
	"cmp"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/lines"
)

// The most lines a second. A denial's line is about a key that had none in its window,
// so the bound is high; the answers by FAIL policy of a second are much alike.
const (
	denialLines = 1000
	failLines   = 100
)

// Config configures a Recorder. Only Where is required.
type Config struct {
	Where  func(key []byte) (node string, shards int) // engine.Engine's
	Why    func(node string) string                   // what is wrong with a node now, or ""; nil: nothing is known
	Logger *slog.Logger                               // nil: slog.Default()
	Now    func() time.Time                           // nil: time.Now
}

// Settings is what a Recorder writes to its file, and how.
type Settings struct {
	Hash   bool // write the SHA-256 of keys in place of the keys
	Sample int  // write one of Sample decisions that have no line otherwise; 0: none
}

// Recorder records decisions. It implements observe.Recorder and is safe for concurrent use.
type Recorder struct {
	config  Config
	started time.Time

	current atomic.Pointer[target]
	denials rate          // of lines about first denials
	fails   rate          // of lines about answers by FAIL policy
	others  atomic.Uint64 // decisions without a line of their own, counted while there is a sample
	newest  newest

	leftOut  [events]atomic.Int64 // lines left out for the rate and not yet reported by a line
	overRate atomic.Int64         // lines left out for the rate, in total
	dropped  atomic.Int64         // lines dropped because the file did not take them, in total
	written  atomic.Int64         // lines written, in total
	failed   atomic.Int64         // writes that failed, in total
	trouble  *episodes.Episode    // of the file

	writers sync.WaitGroup // one for each file, until its lines are written
}

// target is the file and settings in effect, and which windows have a line in the file.
type target struct {
	file *lines.Log // nil: none
	Settings
	windows *windows
}

// New returns a Recorder without a file.
func New(c Config) *Recorder {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Recorder{config: c, started: c.Now()}
	r.trouble = episodes.New(c.Logger, c.Now, falling)
	r.denials.most, r.fails.most = denialLines, failLines
	r.current.Store(&target{windows: newWindows()})
	return r
}

// Use replaces the file and the settings. f is nil to write no file; otherwise the Recorder
// closes it. Lines that wait for the former file are still written to it. Use is called
// by one goroutine, and not after Close.
func (r *Recorder) Use(f *os.File, s Settings) {
	former := r.current.Load()
	next := &target{windows: former.windows}
	if f != nil {
		next.file, next.Settings = r.open(f), s
		if former.file == nil {
			next.windows = newWindows() // earlier denials have no line in this file
		}
	}
	r.current.Store(next)
	if former.file != nil {
		former.file.Finish()
	}
}

// Close writes the lines that wait, which takes as long as the file takes for it, and closes
// the file.
func (r *Recorder) Close() {
	r.reportLeftOut(firstDenial)
	r.reportLeftOut(byFail)
	r.Use(nil, Settings{})
	r.writers.Wait()
	r.trouble.Flush()
}

// Record implements observe.Recorder.
func (r *Recorder) Record(p *engine.Pipeline, from observe.Sender) {
	sample := r.current.Load().Sample > 0
	var n noting
	for i := range p.Requests {
		req, res := &p.Requests[i], &p.Results[i]
		if req.Op != engine.OpDecide || res.Allowed && res.Fail == engine.FailDefault && res.Err == nil && !sample {
			continue
		}
		if req.Shadow && res.Fail != engine.FailDefault {
			res = &engine.Result{Fail: res.Fail, Decision: engine.FailOpen.Decide(req, 0)} // as the client was told
		}
		if n.r == nil {
			n = noting{r: r, target: r.current.Load(), from: from, now: r.config.Now()}
			n.since = n.now.Sub(r.started)
		}
		n.note(req, res)
	}
}

// noting is the state of Record for one pipeline.
type noting struct {
	r      *Recorder
	target *target
	from   observe.Sender
	now    time.Time
	since  time.Duration // since the Recorder started

	last       *engine.Request // the last denial that does not repeat the one before it; nil: there is none
	lastResult *engine.Result  // its answer
}

// note records a decision that may be worth a line.
func (n *noting) note(req *engine.Request, res *engine.Result) {
	r := n.r
	denied := res.Err == nil && !res.Allowed &&
		observe.OutcomeOf(req, res) != observe.DeniedOther && // the key that had no room has the line
		!n.repeats(req, res)
	switch {
	case res.Fail != engine.FailDefault && !r.fails.take(n.since):
		n.leaveOut(byFail)
	case res.Fail != engine.FailDefault:
		d := n.denial(req, res)
		n.write(byFail, &d, res)
		if (denied || res.Fail == engine.FailError) && n.target.windows.first(req, res, n.since, nil) == isFirst {
			r.newest.add(d)
		}
	default:
		turn := isNot
		if denied {
			turn = n.target.windows.first(req, res, n.since, &r.denials)
		}
		switch turn {
		case isFirst:
			d := n.denial(req, res)
			n.write(firstDenial, &d, res)
			r.newest.add(d)
		case isOverRate:
			n.leaveOut(firstDenial)
		case isNot:
			n.sample(req, res)
		}
	}
}

// sample records one of Settings.Sample decisions, if that is set.
func (n *noting) sample(req *engine.Request, res *engine.Result) {
	if every := uint64(n.target.Sample); every > 0 && n.r.others.Add(1)%every == 0 {
		d := n.denial(req, res)
		n.write(sampled, &d, res)
	}
}

// repeats reports whether a denial is of the same key and window as the last one in the
// pipeline, so that it has its answer from windows.
func (n *noting) repeats(req *engine.Request, res *engine.Result) bool {
	if l := n.last; l != nil && string(l.Key) == string(req.Key) && observe.CommandOf(l) == observe.CommandOf(req) &&
		n.lastResult.Fail == res.Fail && length(l, n.lastResult) == length(req, res) {
		return true
	}
	n.last, n.lastResult = req, res
	return false
}

// leaveOut counts a line that is left out for the rate.
func (n *noting) leaveOut(e event) {
	if n.target.file != nil {
		n.r.overRate.Add(1)
		n.r.leftOut[e].Add(1)
	}
}

// write queues a line for the file, if there is one, behind one about the lines of its kind that were left out.
func (n *noting) write(e event, d *Denial, res *engine.Result) {
	if n.target.file != nil {
		n.r.reportLeftOut(e)
		n.r.queue(n.line(e, d, res))
	}
}

// reportLeftOut queues a line about lines that were left out for the rate, if there are any.
func (r *Recorder) reportLeftOut(e event) {
	if n := r.leftOut[e].Swap(0); n > 0 {
		most := map[event]uint32{firstDenial: r.denials.most, byFail: r.fails.most}[e]
		r.queue(r.leftOutLine(e.String(), n, "more than "+strconv.Itoa(int(most))+" lines in a second"))
	}
}
