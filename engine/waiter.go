package engine

import "sync/atomic"

// waiter lets one goroutine wait for several nodes' answers to its pipeline: one
// channel operation a pipeline, however many requests and nodes there are.
type waiter struct {
	left   atomic.Int64
	done   chan struct{}
	memory heldMemory // of forwarded replies
}

// expect says how many requests have to be answered before wait returns.
func (w *waiter) expect(n int) {
	if w.done == nil {
		w.done = make(chan struct{}, 1)
	}
	w.left.Store(int64(n))
}

// answered notes that n requests have their results. The results must be written
// before; whoever waits may use them afterwards.
func (w *waiter) answered(n int) {
	if w.left.Add(int64(-n)) == 0 {
		w.done <- struct{}{}
	}
}

func (w *waiter) wait() { <-w.done }
