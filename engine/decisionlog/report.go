package decisionlog

import (
	"strconv"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

// reason is why a line is left out.
type reason int

const (
	forRate reason = iota // there were too many in a second
	forFile               // the file did not keep up, or failed
)

const reasons = int(forFile) + 1

// reporter writes once a second into the file how many lines were left out, and at most once a
// minute into the log that the file does not take its lines. It has a goroutine of its own,
// because a slow disk may block the one that writes for long.
type reporter struct {
	r    *Recorder
	stop chan struct{}
	done sync.WaitGroup

	trouble         *episodes.Episode
	dropped, failed int64 // what the Recorder had counted in the tick before
}

func newReporter(r *Recorder) *reporter {
	return &reporter{r: r, stop: make(chan struct{}), trouble: episodes.New(r.config.Logger, r.config.Now, falling)}
}

func startReporter(r *Recorder) *reporter {
	p := newReporter(r)
	p.done.Add(1)
	go p.run() // until close
	return p
}

func (p *reporter) close() {
	close(p.stop)
	p.done.Wait()
}

func (p *reporter) run() {
	defer p.done.Done()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-second.C:
			p.tick()
		}
	}
}

// tick is what is done every second.
func (p *reporter) tick() {
	now := p.r.config.Now()
	p.r.writeLeftOut(now, maxQueue)
	p.warn(now)
}

// falling is the trouble of a file that does not take its lines.
var falling = episodes.Trouble{
	Began: "the decision log is dropping lines or falling behind", Ended: "the decision log keeps up again",
	Calm: episodes.Every,
}

// warn notes how many lines were dropped and writes failed since it last did so, if any.
func (p *reporter) warn(now time.Time) {
	dropped, failed := p.r.dropped.Load()-p.dropped, p.r.failed.Load()-p.failed
	if dropped == 0 && failed == 0 {
		p.trouble.Tick("why", p.r.fileTrouble(now))
		p.trouble.End()
		return
	}
	p.dropped, p.failed = p.dropped+dropped, p.failed+failed
	p.trouble.Count("lines_dropped", dropped)
	p.trouble.Note("failed_writes", failed, func() []any { return []any{"why", p.r.fileTrouble(now)} })
}

// writeLeftOut writes lines about those that were left out, with at most most bytes that wait.
func (r *Recorder) writeLeftOut(now time.Time, most int) {
	for e := range event(events) {
		for why := range reason(reasons) {
			n := r.leftOut[e][why].Swap(0)
			if n == 0 {
				continue
			}
			line := encode(&leftOutLine{formatTime(now), "left_out", e.String(), n, r.whyLeftOut(e, why, now)})
			if !r.queue(line, most) {
				r.leftOut[e][why].Add(n) // to be written in the next second
			}
		}
	}
}

// whyLeftOut returns the reason, in words, why lines were left out.
func (r *Recorder) whyLeftOut(e event, why reason, now time.Time) string {
	if why == forFile {
		return r.fileTrouble(now)
	}
	most := r.denials.most
	if e == byFail {
		most = r.fails.most
	}
	return "more than " + strconv.Itoa(int(most)) + " lines in a second"
}

// fileTrouble returns the reason, in words, why lines were dropped lately.
func (r *Recorder) fileTrouble(now time.Time) string {
	if f := r.lastFailure.Load(); f != nil && now.Sub(f.at) < 2*episodes.Every {
		return f.err.Error()
	}
	return "the file cannot keep up with the log"
}

// Stats returns what INFO and metrics show of the decision log.
func (r *Recorder) Stats() []engine.Stat {
	return []engine.Stat{
		{
			Name: "decision_log_lines", Value: r.written.Load(), Metric: "decision_log_lines_total",
			Help: "Lines written to the decision log.",
		},
		{
			Name: "decision_log_left_out", Value: r.overRate.Load(), Metric: "decision_log_left_out_total",
			Help: "Lines left out of the decision log because there were too many in a second.",
		},
		{
			Name: "decision_log_dropped", Value: r.dropped.Load(), Metric: "decision_log_dropped_total",
			Help: "Lines dropped because the file of the decision log did not take them in time.",
		},
		{
			Name: "decision_log_failed_writes", Value: r.failed.Load(), Metric: "decision_log_failed_writes_total",
			Help: "Writes to the decision log that failed.",
		},
	}
}
