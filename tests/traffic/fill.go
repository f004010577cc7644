package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Fill sends one request for each key to each of the servers, over a few connections with long
// pipelines. It starts again, for at most 30 s, until nodes have answered all requests: a node may have been
// suspended just before.
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

// fillFrom fills a range of keys. failed is the number of requests that a FAIL policy answered, or the error UNAVAILABLE.
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
			answer, err := skipReply(c.r)
			byFail := answer.byFail
			if errors.Is(err, errUnavailable) {
				byFail, err = true, nil
			}
			if err != nil {
				return failed, err
			}
			if byFail {
				failed++
			}
		}
	}
	return failed, ctx.Err()
}
