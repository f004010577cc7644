package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// openTestRedis opens an engine on real nodes whose scripts go by the given clock.
func openTestRedis(t testing.TB, clock func() int64, nodes ...*redistest.Server) *Redis {
	t.Helper()
	config := RedisConfig{Timeout: 5 * time.Second}
	for _, n := range nodes {
		config.Backends = append(config.Backends, n.URL())
	}
	e, err := OpenRedis(config)
	require.NoError(t, err)
	e.clock = clock
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func TestTmpDiff(t *testing.T) {
	s := redistest.Start(t)
	now := time.Now().UnixMilli() + 100*365*86400*1000
	e := openTestRedis(t, func() int64 { return now }, s)
	m := NewEmbedded(EmbeddedConfig{Now: func() time.Time { return time.UnixMilli(now) }})
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	windows := []int64{7, 50, 1000, 60000, 86400000}
	buckets := []int64{1, 3, 7, 300}
	for step := 0; step < 6000; step++ {
		var a, b Pipeline
		for range 1 + rng.IntN(40) {
			var r Request
			r.Op = Op(1 + rng.IntN(3))
			r.Key = []byte(fmt.Sprint("k", rng.IntN(6)))
			r.N = 1
			if rng.IntN(4) == 0 {
				r.N = 2
			}
			w0 := rng.IntN(5)
			for i := range r.N {
				r.Windows[i] = Window{Limit: []int64{1, 5, 40, 3000, 200000}[rng.IntN(5)], Length: windows[(w0+i)%5]}
			}
			r.Buckets = 1
			if r.Op == OpCounter {
				r.Buckets = buckets[rng.IntN(4)]
				r.Strict = rng.IntN(2) == 0
			}
			for i := range r.N {
				if r.Windows[i].Length < r.Buckets {
					r.Buckets = 1
				}
			}
			r.Cost = []int64{0, 1, 1, 1, 2, 7}[rng.IntN(6)]
			for i := range r.N {
				r.Cost = min(r.Cost, r.Windows[i].Limit)
			}
			if rng.IntN(400) == 0 {
				r = Request{Op: OpReset, Key: r.Key}
			}
			for range 1 + rng.IntN(2) {
				*a.Add() = r
				*b.Add() = r
			}
		}
		e.Do(&a)
		m.Do(&b)
		for i := range a.Requests {
			require.NoError(t, a.Results[i].Err)
			require.Equal(t, b.Results[i], a.Results[i], "step %d item %d of %d now %d %+v", step, i, len(a.Requests), now, a.Requests[i])
		}
		switch rng.IntN(10) {
		case 0:
			now += rng.Int64N(100000)
		case 1:
			now -= rng.Int64N(2000)
		case 2:
			now += rng.Int64N(1000)
		default:
			now += rng.Int64N(4)
		}
	}
}
