package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"syscall"
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

// pace sends n commands at a rate, over all connections in turn, and never waits for an
// answer: a request is written to its connection when its time has come, behind those
// that are not answered. The sockets hold what a run sends.
func (l load) pace(ctx context.Context, n int, s *sample) error {
	conns, err := l.dial(l.clients)
	if err != nil {
		return err
	}
	asks := l.stream(0)
	requests := make([][]byte, n) // made before the clock runs
	for i := range requests {
		requests[i] = asks.next(nil)
	}
	took, late := make([]time.Duration, n), make([]time.Duration, n)
	failed := make([]int, len(conns))
	plan := schedule{time.Now().Add(10 * time.Millisecond), time.Duration(1e9 / l.rate)}
	answered := make(chan error, 1)
	go func() { // ends when every answer has come, or when the connections are closed
		answered <- each(len(conns), func(c int) error {
			for i := c; i < n; i += len(conns) {
				byPolicy, err := skipReply(conns[c].r)
				if err != nil {
					return err
				}
				if took[i] = time.Since(plan.at(i)); byPolicy {
					failed[c]++
				}
			}
			return nil
		})
	}()
	if err := l.sendOnTime(ctx, plan, conns, requests, late); err != nil {
		hangUp(conns)
		return errors.Join(err, <-answered)
	}
	err = <-answered
	hangUp(conns)
	if err != nil {
		return err
	}
	s.rate = float64(n) / time.Since(plan.began).Seconds()
	for _, f := range failed {
		s.failed += 100 * float64(f) / float64(n)
	}
	slices.Sort(took)
	slices.Sort(late)
	s.p50, s.p99, s.p999, s.max = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999), quantile(took, 1)
	s.late = quantile(late, 0.99)
	return nil
}

// sendOnTime sends each request when its time has come, and notes by how much it was too
// late. The node that is to stand still does so in the middle half.
func (l load) sendOnTime(ctx context.Context, plan schedule, conns []*conn, requests [][]byte, late []time.Duration) error {
	runtime.LockOSThread() // sleep blocks it
	defer runtime.UnlockOSThread()
	if l.stopped != nil {
		defer l.stopped.signal(syscall.SIGCONT)
	}
	for i := 0; i < len(requests); {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sleep(time.Until(plan.at(i)))
		for end := min(plan.due(time.Now()), len(requests)); i < end; i++ {
			if l.stopped != nil && i == len(requests)/4 {
				l.stopped.signal(syscall.SIGSTOP)
			}
			if l.stopped != nil && i == len(requests)*3/4 {
				l.stopped.signal(syscall.SIGCONT)
			}
			if _, err := conns[i%len(conns)].Write(requests[i]); err != nil {
				return err
			}
			late[i] = time.Since(plan.at(i))
		}
	}
	return nil
}
