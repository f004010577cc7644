package traffic

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

// schedule is that of an open loop. Request i is meant to be sent i intervals after the
// first, whatever became of those before it. Latency counts from that time, so that a
// server that stands still is charged for every request that came meanwhile, and not
// only for the few that were under way (Gil Tene's "coordinated omission").
type schedule struct {
	began time.Time
	every time.Duration
}

// at returns when request i is meant to be sent.
func (s schedule) at(i int) time.Time { return s.began.Add(time.Duration(i) * s.every) }

// due returns how many requests are meant to have been sent at a time.
func (s schedule) due(now time.Time) int {
	if now.Before(s.began) {
		return 0
	}
	return int(now.Sub(s.began)/s.every) + 1
}

// Pause is something that happens while the middle half of an open loop's requests is sent.
type Pause struct {
	Begin, End func()
}

// Pace sends n commands at a rate per second, over all connections in turn, and never waits for an
// answer: a request is written to its connection when its time has come, behind those
// that are not answered. The sockets hold what a run sends. Pace ends at the first error reply.
func (p *Plan) Pace(ctx context.Context, n int, rate float64, pause *Pause) (f Figures, err error) {
	conns, err := p.dial()
	if err != nil {
		return f, err
	}
	asks := p.stream(0)
	requests := make([][]byte, n) // made before the clock runs
	for i := range requests {
		requests[i] = asks.next(nil)
	}
	took, late := make([]time.Duration, n), make([]time.Duration, n)
	answers := make([]said, n)
	plan := schedule{time.Now().Add(10 * time.Millisecond), time.Duration(1e9 / rate)}
	answered := make(chan error, 1)
	go func() { // ends when every answer has come, or when the connections are closed
		answered <- each(len(conns), func(c int) error {
			for i := c; i < n; i += len(conns) {
				var err error
				if answers[i], err = skipReply(conns[c].r); err != nil {
					return err
				}
				took[i] = time.Since(plan.at(i))
			}
			return nil
		})
	}()
	if err := sendOnTime(ctx, plan, conns, requests, late, pause); err != nil {
		hangUp(conns)
		return f, errors.Join(err, <-answered)
	}
	err = <-answered
	hangUp(conns)
	if err != nil {
		return f, err
	}
	f.Rate = float64(n) / time.Since(plan.began).Seconds()
	from, to := p.measured(plan, answers)
	for _, a := range answers[from:to] {
		if a.byFail {
			f.Failed += 100 / float64(to-from)
		}
	}
	f.times(took[from:to])
	slices.Sort(late)
	f.Late = quantile(late, 0.99)
	return f, nil
}

// measured returns which requests Pace measures.
func (p *Plan) measured(plan schedule, answers []said) (from, to int) {
	first := slices.IndexFunc(answers, func(a said) bool { return a.denied })
	if p.Near == 0 || first < 0 {
		return 0, len(answers)
	}
	near := int(p.Near / plan.every)
	return max(first-near, 0), min(first+near, len(answers))
}

// sendOnTime sends each request when its time has come, and notes by how much it was too
// late.
func sendOnTime(ctx context.Context, plan schedule, conns []*Conn, requests [][]byte, late []time.Duration, pause *Pause) error {
	runtime.LockOSThread() // sleep blocks it
	defer runtime.UnlockOSThread()
	if pause != nil {
		defer pause.End()
	}
	for i := 0; i < len(requests); {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sleep(time.Until(plan.at(i)))
		for end := min(plan.due(time.Now()), len(requests)); i < end; i++ {
			if pause != nil && i == len(requests)/4 {
				pause.Begin()
			}
			if pause != nil && i == len(requests)*3/4 {
				pause.End()
			}
			if _, err := conns[i%len(conns)].Write(requests[i]); err != nil {
				return err
			}
			late[i] = time.Since(plan.at(i))
		}
	}
	return nil
}
