package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
)

// Loop is a goroutine that reads and renews values in rounds.
type Loop struct {
	wake chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup
}

// NewLoop returns a loop that has not begun, and the context of its rounds, which ends with Close.
func NewLoop() (*Loop, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &Loop{wake: make(chan struct{}, 1), stop: stop}, ctx
}

// Go begins the rounds: one after each pause, and one after Soon. ctx is the context of NewLoop.
func (l *Loop) Go(ctx context.Context, pause func() time.Duration, round func(context.Context)) {
	l.done.Go(func() { // until Close
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
			case <-time.After(pause()):
			}
			round(ctx)
		}
	})
}

// Soon has the next round begin at once.
func (l *Loop) Soon() {
	select {
	case l.wake <- struct{}{}:
	default: // it will begin already
	}
}

// Close ends the rounds, and waits for one that is under way.
func (l *Loop) Close() {
	l.stop()
	l.done.Wait()
}

// Each calls ask for every node at the same time, and waits. What ask does ends with its context. A panic is logged and
// costs one node's answer.
func Each(log *slog.Logger, doing string, nodes []*backend.Node, ask func(i int, n *backend.Node)) {
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { // ends with the context of ask
			backend.Guard(log, doing+" "+n.Name(), func() { ask(i, n) })
		})
	}
	all.Wait()
}
