package conformance

import (
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// manyDeadlines compares requests about keys whose holds have very different TTLs, so that their windows are crowded, with the model.
func manyDeadlines(t *testing.T, open Subject) {
	run := withIDs(0)
	e := open(t, run.clock)
	ask := func(r engine.Request) {
		t.Helper()
		p := engine.Pipeline{Requests: []engine.Request{r}}
		e.Do(&p)
		require.Empty(t, run.compare(&p))
	}
	for _, kind := range []limit.Kind{limit.Slide, limit.Fixed, limit.Concurrency} {
		for _, windows := range []int{1, 2} {
			if kind == limit.Concurrency && windows > 1 {
				continue
			}
			key := fmt.Sprint("deadlines ", kind, windows)
			request := func(cost int64, h *engine.Hold) engine.Request {
				r := Request(kind, key, 500, 3_600_000)
				r.Cost, r.Hold, r.N, r.Windows[1] = cost, h, windows, limit.Window{Limit: 600, Length: 7_200_000}
				if kind == limit.Concurrency {
					r.Windows[0].Length = 0
				}
				return r
			}
			for i := range int64(420) {
				run.us += (1 + i%7) * 1000
				id := engine.DigestOf(fmt.Append(nil, i%380))
				ask(request(1, &engine.Hold{ID: id, TTL: 5000 + i*i*7, Release: kind != limit.Slide || i%3 == 0}))
				if i%20 == 0 && kind != limit.Concurrency {
					ask(request(300+i/2, nil))
					ask(Settle(key, kind, fmt.Sprint(i/2), 1))
				}
			}
			for range 30 {
				run.us += 31_111_000
				ask(Inspect(key))
				ask(request(250, &engine.Hold{ID: engine.DigestOf([]byte("more")), TTL: 100, Release: kind != limit.Slide}))
			}
		}
	}
}
