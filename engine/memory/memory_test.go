package memory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

func TestJanitorDropsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Open(Config{})
		for i := range 1000 {
			conformance.Ask(e, conformance.Request(limit.Slide, fmt.Sprint("slide", i), 5, 1000))
			conformance.Ask(e, conformance.Request(limit.Counter, fmt.Sprint("counter", i), 5, 1000))
			conformance.Ask(e, conformance.Request(limit.Fixed, fmt.Sprint("fixed", i), 5, 1000))
			conformance.Ask(e, conformance.Request(limit.Fixed, fmt.Sprint("long", i), 5, 86_400_000))
		}
		require.EqualValues(t, 4000, e.Keys())
		time.Sleep((2200 + linger) * time.Millisecond) // the test's own time: two windows, what the keys linger and a visit
		require.EqualValues(t, 1000, e.Keys())
		require.EqualValues(t, 3000, e.Expired())
		require.LessOrEqual(t, e.Memory(), int64(1000*200))
		require.NoError(t, e.Close())
	})
}

func TestKeyOutlivesItsOldEnd(t *testing.T) {
	e, clock := setClock(t, Config{})
	r := conformance.Request(limit.Slide, "k", 2, 1000)
	conformance.Ask(e, r)
	*clock += 900
	conformance.Ask(e, r)
	*clock = conformance.Base + 1900 // the first is past, the second counts to its last ms
	e.sweepAll(*clock + linger)
	require.EqualValues(t, 1, e.Keys())
	require.EqualValues(t, 1, conformance.Ask(e, conformance.Inspect("k")).States[0].Used)
	*clock++
	e.sweepAll(*clock + linger)
	require.Zero(t, e.Keys())
	require.Zero(t, e.Memory())
}

// A window that has expired counts towards the most of a key if the request charges it again.
func TestWindowThatARequestRevivesCounts(t *testing.T) {
	e, clock := setClock(t, Config{})
	require.NoError(t, conformance.Ask(e, conformance.Slide("k", 10, 1000, 1)).Err)
	for i := range int64(engine.MaxStates) - 1 {
		require.NoError(t, conformance.Ask(e, conformance.Slide("k", 10, 60_000+i, 1)).Err)
	}
	*clock += 1001
	r := conformance.Slide("k", 10, 1000, 1)
	r.N, r.Windows[1] = 2, limit.Window{Limit: 10, Length: 50_000}
	require.ErrorIs(t, conformance.Ask(e, r).Err, engine.ErrStates)
	require.NoError(t, conformance.Ask(e, conformance.Slide("k", 10, 50_000, 1)).Err, "in place of the expired one")
	require.ErrorIs(t, conformance.Ask(e, conformance.Slide("k", 10, 1000, 1)).Err, engine.ErrStates)
}

// A reset drops a key that has expired, but forgets nothing that mattered.
func TestResetOfAnExpiredKey(t *testing.T) {
	e, clock := setClock(t, Config{})
	for after, mattered := range map[int64]bool{1000: true, 1001: false} {
		require.True(t, conformance.Ask(e, conformance.Slide("k", 10, 1000, 1)).Allowed)
		*clock += after
		require.Equal(t, mattered, conformance.Ask(e, conformance.Reset("k")).Reset)
		require.Zero(t, e.Keys())
	}
}

func TestResetGivesMemoryBack(t *testing.T) {
	e, clock := setClock(t, Config{})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		key := fmt.Sprint("k", rng.IntN(300))
		r := conformance.Request(limit.Kind(1+rng.IntN(3)), key, 1000, 1000<<rng.IntN(4))
		if r.Kind == limit.Counter {
			r.Param = 1 + rng.Int64N(5)
		}
		conformance.Ask(e, r)
		*clock += rng.Int64N(3)
		if rng.IntN(20) == 0 {
			conformance.Ask(e, conformance.Reset(key))
		}
	}
	require.Positive(t, e.Memory())
	for i := range 300 {
		conformance.Ask(e, conformance.Reset(fmt.Sprint("k", i)))
	}
	require.Zero(t, e.Keys())
	require.Zero(t, e.Memory())
	for i := range e.stripes {
		require.Empty(t, e.stripes[i].heap)
	}
}

func TestFullMemory(t *testing.T) {
	e, clock := setClock(t, Config{MaxMemory: 1 << 20})
	live := conformance.Request(limit.Slide, "live", 60_000, 3_600_000)
	require.True(t, conformance.Ask(e, live).Allowed)
	flood := func(i int, fail engine.FailPolicy) engine.Result {
		r := conformance.Request(limit.Counter, fmt.Sprintf("flood-%d", i), 10, 1000)
		r.Fail = fail
		return conformance.Ask(e, r)
	}
	i := 0
	for ; e.Refused() == 0; i++ {
		require.NoError(t, flood(i, engine.FailDefault).Err)
		require.LessOrEqual(t, e.Memory(), int64(1<<20))
	}
	require.Greater(t, i, 3000)

	// A request that does not fit gets its FAIL policy.
	require.Equal(t, limit.Decision{Allowed: false, Limit: 10, Remaining: -1, RetryAfter: 100, ResetAfter: 100}, flood(i, engine.FailClosed).Decision)
	require.Equal(t, limit.Decision{Allowed: true, Limit: 10, Remaining: -1}, flood(i, engine.FailOpen).Decision)
	require.Equal(t, flood(i, engine.FailClosed), flood(i, engine.FailLocal))
	require.EqualError(t, flood(i, engine.FailError).Err, "UNAVAILABLE embedded: memory is full")

	// Existing keys are still charged, and a request without cost needs no room.
	require.True(t, flood(0, engine.FailError).Allowed)
	require.True(t, conformance.Ask(e, live).Allowed)
	free := conformance.Request(limit.Slide, "free", 3, 1000)
	free.Cost = 0
	require.EqualValues(t, 3, conformance.Ask(e, free).Remaining)

	// A charge that needs a longer ring is refused, and the log stays as it was.
	more := live
	more.Fail = engine.FailError
	var got engine.Result
	for n := int64(2); got.Err == nil; n++ {
		*clock = conformance.Base + n
		got = conformance.Ask(e, more)
		require.Less(t, n, int64(100))
	}
	states := conformance.Ask(e, conformance.Inspect("live")).States
	require.Equal(t, 60_000-states[0].Remaining, states[0].Used)

	// Expired keys make room at once, without the janitor; live ones stay.
	*clock = conformance.Base + 10_000
	require.NoError(t, flood(i, engine.FailError).Err)
	require.EqualValues(t, 2, e.Keys())
	require.EqualValues(t, i-1, e.Expired())
	require.True(t, conformance.Ask(e, more).Allowed)
}

// Many goroutines on few keys admit exactly the limit.
func TestEmbeddedConcurrently(t *testing.T) {
	e := Open(Config{Now: func() time.Time { return time.UnixMilli(conformance.Base) }})
	const workers, calls, most = 8, 500, 700
	admitted := make([]int, 5*workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			var p engine.Pipeline
			for i := range calls {
				p.Reset()
				for k := range 5 {
					*p.Add() = conformance.Request(limit.Slide+limit.Kind(k%3), fmt.Sprint("k", k), most, 60_000)
					*p.Add() = conformance.Inspect(fmt.Sprint("k", k))
				}
				*p.Add() = conformance.Reset(fmt.Sprint("other", i%7))
				e.Do(&p)
				for k := range 5 {
					if p.Results[2*k].Allowed {
						admitted[5*w+k]++
					}
				}
			}
		})
	}
	wg.Wait()
	for k := range 5 {
		sum := 0
		for w := range workers {
			sum += admitted[5*w+k]
		}
		require.Equal(t, most, sum)
	}
	require.NoError(t, e.Close())
}

// heapBytes returns the live heap.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The account is within a fifth of the live heap, for keys of every kind; and a
// million counters of 16-byte keys hold at most 200 bytes each.
func TestMemoryAccount(t *testing.T) {
	for _, tt := range []struct {
		name  string
		keys  int
		calls int
		most  int64 // bytes a key
		make  func(key string) engine.Request
	}{
		{"counter", 1_000_000, 1, 200, func(k string) engine.Request { return conformance.Request(limit.Counter, k, 10, 60_000) }},
		{"fixed", 100_000, 1, 200, func(k string) engine.Request { return conformance.Request(limit.Fixed, k, 10, 60_000) }},
		{"buckets", 20_000, 1, 750, func(k string) engine.Request {
			r := conformance.Request(limit.Counter, k, 10, 60_000)
			r.Param = 60
			return r
		}},
		{"slide", 100_000, 1, 320, func(k string) engine.Request { return conformance.Request(limit.Slide, k, 10, 60_000) }},
		{"full slide", 300, 1000, 20_000, func(k string) engine.Request { return conformance.Request(limit.Slide, k, 1000, 60_000) }},
		{"windows", 20_000, 1, 700, func(k string) engine.Request {
			r := conformance.Request(limit.Counter, k, 10, 1000)
			r.N = 4
			for i := range r.N {
				r.Windows[i] = limit.Window{Limit: 10, Length: int64(i+1) * 1000}
			}
			return r
		}},
		{"a lease", 20_000, 1, 1100, func(k string) engine.Request { return acquire(k, 10, k, 60_000) }},
		{"an id of ONCE", 100_000, 1, 900, func(k string) engine.Request {
			r := reserve(k, 10, 60_000, 1, k, 0)
			r.Hold.Once = true
			return r
		}},
		{"ten reservations", 5000, 10, 4200, func() func(k string) engine.Request {
			n := 0
			return func(k string) engine.Request { n++; return reserve(k, 10, 60_000, 1, n, 60_000) }
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if proxytest.Race {
				tt.keys = min(tt.keys, 20_000) // make memory uses all of them
			}
			before := heapBytes()
			e, clock := setClock(t, Config{})
			empty := heapBytes() - before
			var p engine.Pipeline
			for range tt.calls {
				for i := range tt.keys {
					*p.Add() = tt.make(strconv.FormatInt(1e15+int64(i), 10)) // 16 bytes
					if len(p.Requests) == 100 {
						e.Do(&p)
						p.Reset()
					}
				}
				*clock++
			}
			held := heapBytes() - before - empty
			require.EqualValues(t, tt.keys, e.Keys())
			t.Logf("%d bytes a key, reckoned %d", held/e.Keys(), e.Memory()/e.Keys())
			require.InEpsilon(t, held, e.Memory(), 0.2)
			require.LessOrEqual(t, held/e.Keys(), tt.most)

			*clock += 200_000 // all have expired: nearly all memory is freed
			e.sweepAll(*clock)
			require.Zero(t, e.Memory())
			require.Less(t, heapBytes()-before-empty, held/100+1<<19)
			runtime.KeepAlive(e)
		})
	}
}
