package decisionlog

import (
	"strconv"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
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

	logged          time.Time // when the latest line was logged
	dropped, failed int64     // what the Recorder had counted then
}

func startReporter(r *Recorder) *reporter {
	p := &reporter{r: r, stop: make(chan struct{})}
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
	if now.Sub(p.logged) >= engine.LogEvery {
		p.warn(now)
	}
}

// warn logs how many lines were dropped and writes failed since it last did so, if any.
func (p *reporter) warn(now time.Time) {
	dropped, failed := p.r.dropped.Load(), p.r.failed.Load()
	if dropped == p.dropped && failed == p.failed {
		return
	}
	p.r.config.Logger.Warn("the decision log is dropping lines or falling behind", "why", p.r.fileTrouble(now),
		"lines_dropped", dropped-p.dropped, "failed_writes", failed-p.failed)
	p.logged, p.dropped, p.failed = now, dropped, failed
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
	if f := r.lastFailure.Load(); f != nil && now.Sub(f.at) < 2*engine.LogEvery {
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
