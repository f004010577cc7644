package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Instants opens an engine that decides by the given clock, which is in whole us and never steps back, and by which
// its keys expire, too. The engine is closed at the end of the test.
type Instants func(t *testing.T, clock func() time.Time) engine.Engine

// RunInstants sends random requests with the shortest windows, the shortest times to live, and rates of up to one unit
// a ns. The clock stops anywhere within a ms, most often just before and after what was charged stops to matter: each
// decision must be that of a model, neither more units nor fewer.
func RunInstants(t *testing.T, open Instants, random int) {
	run := instants{rates: map[string]int64{}, buckets: map[string]*bucketReference{}}
	var seed uint64
	run.randomHold, seed = newRandomHold()
	run.ttls, run.clock = []int64{1, 2, 5}, Base
	e := open(t, func() time.Time { return time.UnixMicro(run.us()) })
	var p engine.Pipeline
	steps := Soak(t, random)
	for step := 0; step < steps; step += len(p.Requests) {
		run.windows = []int64{1, 1 + run.Int64N(5)}
		run.limits = []int64{1, among[int64](run.randomHold, 2, 3, 12)}
		p.Reset()
		for range 1 + run.IntN(12) {
			switch run.IntN(4) {
			case 0:
				*p.Add() = run.throttle(seed)
			case 1:
				run.bucket(&p, seed)
			default:
				*p.Add() = run.request(seed)
			}
		}
		e.Do(&p)
		for i := range p.Requests {
			r, compare := &p.Requests[i], run.compare
			if r.Kind.Rated() {
				compare = run.compareRate
			}
			if r.Kind == limit.Bucket {
				compare = run.compareBucket
			}
			run.later = Equal(p.Requests, i)
			require.Empty(t, compare(r, &p.Results[i]), "-seed %d, step %d, clock base+%d us, %q", seed, step+i, run.us()-Base*1000, r.Key)
		}
		run.pass()
	}
	t.Logf("seed %d, %d steps: %v", seed, steps, run.seen)
	for _, what := range []string{"held", "charged", "denied", "again", "lapsed", "settled", "not settled", "renewed", "not renewed",
		"rate admitted", "rate denied", "bucket admitted", "bucket denied"} {
		require.Positive(t, run.seen[what], what)
	}
}

type instants struct {
	*randomHold
	beyond  int64            // us of the clock beyond its ms
	rates   map[string]int64 // by key: the ns at which all has drained
	buckets map[string]*bucketReference
	line    [3]string // of the buckets that requests are about, with a place for the capacity
	most    [3]int64  // their capacities
	later   []int     // the later requests that equal the one to compare
}

func (run *instants) us() int64 { return run.clock*1000 + run.beyond }

// throttle returns a random CL.THROTTLE.
func (run *instants) throttle(seed uint64) engine.Request {
	count := among[int64](run.randomHold, 300, 350, 900, 1000, 5000, 6000, 700_000, 1_000_000, 3_000_000, 1_000_000_000)
	burst := among[int64](run.randomHold, 0, 0, 1, 9, 200)
	quantity := among(run.randomHold, 1, 1, 1, run.Int64N(burst+3))
	return Throttle(fmt.Sprintf("rate-%d-%d", seed, run.IntN(3)), burst, count, 1, quantity)
}

// compareRate gives a CL.THROTTLE to the model, a time for each key, and returns how the answer differs.
func (run *instants) compareRate(r *engine.Request, res *engine.Result) string {
	now, key, most := run.us()*1000, string(r.Key), r.Windows[0].Limit
	drained := max(run.rates[key], now)
	after, full := drained+r.Cost*r.Manner, now+most*r.Manner
	want := limit.Decision{Allowed: after <= full, Limit: most}
	switch {
	case want.Allowed:
		run.seen["rate admitted"]++
		drained = after
		run.rates[key] = drained
	case r.Cost > most:
		want.RetryAfter = -1
	default:
		run.seen["rate denied"]++
		want.RetryAfter = (after - full) / 1_000_000
	}
	want.Remaining = max(full-drained, 0) / r.Manner
	want.ResetAfter = (drained - now) / 1_000_000
	for range run.later { // with which an engine may have charged it at one moment
		if after += r.Cost * r.Manner; want.Allowed && after <= full && (after-now)/1_000_000 == res.ResetAfter {
			want.ResetAfter = res.ResetAfter
		}
	}
	if res.Err != nil || want != res.Decision {
		return fmt.Sprintf("a unit in %d ns, COST %d\nmodel  %+v\nengine %+v %v", r.Manner, r.Cost, want, res.Decision, res.Err)
	}
	return ""
}

// pass moves the clock forward: to within the ms, to its end, to the next few ms, or for so long that nothing matters
// any more.
func (run *instants) pass() {
	switch n := run.IntN(200); {
	case n < 40:
	case n < 100:
		run.beyond = min(run.beyond+run.Int64N(400), 999)
	case n < 130:
		run.beyond = 999
	case n < 170:
		run.clock, run.beyond = run.clock+1, run.Int64N(2)
	case n < 199:
		run.clock, run.beyond = run.clock+run.Int64N(8), run.beyond+run.Int64N(1000-run.beyond)
	default: // an engine has dropped every key, and with it how many holds have lapsed
		run.clock += 5000
		clear(run.keys)
		clear(run.rates)
	}
}
