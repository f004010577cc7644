package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// fill asks for every key once, over a few connections that send many commands
// together. It does so again until no FAIL policy answers, for at most 30 s: after a
// node has stood still.
func (l load) fill(ctx context.Context) error {
	const connections, together = 8, 128
	for until := time.Now().Add(30 * time.Second); ; {
		var failed atomic.Int64
		err := each(connections, func(i int) error {
			from, to := l.keys*i/connections, l.keys*(i+1)/connections
			for _, front := range l.filled() {
				n, err := l.fillFrom(ctx, front, from, to, together)
				failed.Add(int64(n))
				if err != nil {
					return err
				}
			}
			return nil
		})
		switch {
		case err != nil:
			return fmt.Errorf("filling: %w", err)
		case failed.Load() == 0:
			return nil
		case time.Now().After(until):
			return errors.New("filling: a node does not answer")
		}
	}
}

// filled returns the fronts that are filled: all nodes, and one rlproxy of those that
// share their nodes.
func (l load) filled() []*server {
	if l.proxied {
		return l.fronts[:1]
	}
	return l.fronts
}

// fillFrom fills a range of keys, and returns how many answers a FAIL policy gave.
func (l load) fillFrom(ctx context.Context, front *server, from, to, together int) (failed int, err error) {
	c, err := dial(front.port)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }() // all replies are read
	asks := l.stream(0)
	at := 0
	asks.key = func() int { return from + at/len(asks.commands) }
	all := (to - from) * len(asks.commands)
	for at < all && ctx.Err() == nil {
		var out []byte
		begin, end := at, min(at+together, all)
		for ; at < end; at++ {
			out = asks.next(out)
		}
		if _, err := c.Write(out); err != nil {
			return failed, err
		}
		for range end - begin {
			byPolicy, err := skipReply(c.r)
			if err != nil {
				return failed, err
			}
			if byPolicy {
				failed++
			}
		}
	}
	return failed, ctx.Err()
}
