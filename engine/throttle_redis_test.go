package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestThrottleRedis(t *testing.T) {
	transcripts(t, func(t *testing.T, clock func() int64) Engine {
		e := openTestRedis(t, clock, redistest.Start(t))
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}, "testdata/throttle.txt")
}

// The script answers CL.THROTTLE as the embedded engine does, beside other states of
// the key and in combined entries.
func TestThrottleRedisLikeEmbedded(t *testing.T) {
	now := time.Now().UnixMilli() + 50*365*24*3600*1000
	e := openTestRedis(t, func() int64 { return now }, redistest.Start(t))
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	m := newEmbedded(EmbeddedConfig{Now: func() time.Time { return time.UnixMilli(now) }})
	rng := rand.New(rand.NewPCG(5, 6)) // #nosec G404 -- a test's choices
	for step := range 2000 {
		var a, b Pipeline
		for range 1 + rng.IntN(20) {
			r := Request{Op: OpThrottle, Key: fmt.Appendf(nil, "k%d", rng.IntN(4)), Cost: rng.Int64N(4),
				Throttle: Throttle{Burst: rng.Int64N(20), Count: 1 + rng.Int64N(5000), Period: 1 + rng.Int64N(60)}}
			if rng.IntN(10) == 0 {
				r = slide(string(r.Key), 10, 1000, 1)
			}
			if rng.IntN(50) == 0 {
				r = Request{Op: OpInspect, Key: r.Key}
			}
			for range 1 + rng.IntN(3) {
				*a.Add(), *b.Add() = r, r
			}
		}
		e.Do(&a)
		m.Do(&b)
		for i := range a.Requests {
			for j := range a.Results[i].States {
				a.Results[i].States[j].Node, a.Results[i].States[j].Rate = "embedded", b.Results[i].States[j].Rate
			}
			require.Equal(t, b.Results[i], a.Results[i], "step %d, %+v", step, a.Requests[i])
		}
		now += rng.Int64N(300) - 20
	}
}
