package traffic

import (
	"context"
	"time"
)

// Ask sends n commands and measures the rate. The clients do what redis-benchmark's do: each
// sends a pipeline and waits for its answers. Ask ends at the first error reply.
func (p *Plan) Ask(ctx context.Context, n int) (f Figures, err error) {
	conns, err := p.dial()
	if err != nil {
		return f, err
	}
	defer hangUp(conns)
	began := time.Now()
	err = each(len(conns), func(i int) error {
		asks := p.stream(uint64(i))
		var out []byte
		for left := n*(i+1)/len(conns) - n*i/len(conns); left > 0 && ctx.Err() == nil; left -= p.Depth {
			out = out[:0]
			depth := min(p.Depth, left)
			for range depth {
				out = asks.next(out)
			}
			if _, err := conns[i].Write(out); err != nil {
				return err
			}
			for range depth {
				if _, err := skipReply(conns[i].r); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
	f.Rate = float64(n) / time.Since(began).Seconds()
	return f, err
}
