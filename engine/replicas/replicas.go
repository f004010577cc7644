// Package replicas has the replicas of a node confirm what the node has written, before it counts.
package replicas

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// Need is how many replicas must have what a node has written, and how long they have for it.
type Need struct {
	Replicas int           // 0: none
	Within   time.Duration // 0: half of the node's timeout
}

// Send sends commands to a node in one write, and returns when each has its reply or its error. Unless need is zero, a
// WAIT goes with them, which takes no more than three quarters of the time that ctx has left. If too few replicas have
// what the commands have written by then, Send returns an error that says so.
func Send[C redis.Cmder](ctx context.Context, n *backend.Node, need Need, commands []C) error {
	if need.Replicas == 0 && len(commands) == 1 {
		_ = n.Client().Process(ctx, commands[0]) // errors are the commands' own, here and below
		return nil
	}
	pipe := n.Client().Pipeline()
	for _, c := range commands {
		_ = pipe.Process(ctx, c)
	}
	if need.Replicas == 0 {
		_, _ = pipe.Exec(ctx)
		return nil
	}
	within := cmp.Or(need.Within, n.Timeout()/2)
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)*3/4)
	}
	ms := max(within.Milliseconds(), 1) // 0 would wait forever
	wait := redis.NewIntCmd(ctx, "wait", need.Replicas, ms)
	_ = pipe.Process(ctx, wait)
	_, _ = pipe.Exec(ctx)
	switch have, err := wait.Result(); {
	case err != nil:
		return fmt.Errorf("replicas may lack the write: %s", backend.Reason(err))
	case have < int64(need.Replicas):
		return fmt.Errorf("%d of %d replicas had the write after %d ms", have, need.Replicas, ms)
	}
	return nil
}
