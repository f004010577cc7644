package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Fill asks for every key once at each of the servers, over a few connections that send many commands
// together. It does so again until no FAIL policy answers, for at most 30 s: after a
// node has stood still.
func (p *Plan) Fill(ctx context.Context) error {
	const connections, together = 8, 128
	for until := time.Now().Add(30 * time.Second); ; {
		var failed atomic.Int64
		err := each(connections, func(i int) error {
			from, to := p.Keys*i/connections, p.Keys*(i+1)/connections
			for _, server := range p.Servers {
				n, err := p.fillFrom(ctx, server, from, to, together)
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

// fillFrom fills a range of keys, and returns how many answers a FAIL policy gave.
func (p *Plan) fillFrom(ctx context.Context, server string, from, to, together int) (failed int, err error) {
	c, err := Dial(server)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }() // all replies are read
	asks := p.stream(0)
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
