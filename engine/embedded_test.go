package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// request makes the requests of most tests.
func request(op Op, key string, limit, window int64) Request {
	return Request{Op: op, Key: []byte(key), N: 1, Windows: [MaxWindows]Window{{limit, window}}, Cost: 1, Buckets: 1}
}

// ask1 sends one request.
func ask1(e Engine, r Request) Result {
	p := Pipeline{Requests: []Request{r}}
	e.Do(&p)
	return p.Results[0]
}

// setClock opens an embedded engine without a janitor whose clock the test sets.
func setClock(t testing.TB, cfg EmbeddedConfig) (*Embedded, *int64) {
	clock := new(int64)
	*clock = testBase
	cfg.Now = at(func() int64 { return *clock })
	e := newEmbedded(cfg)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e, clock
}

func TestJanitorDropsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEmbedded(EmbeddedConfig{})
		for i := range 1000 {
			ask1(e, request(OpSlide, fmt.Sprint("slide", i), 5, 1000))
			ask1(e, request(OpCounter, fmt.Sprint("counter", i), 5, 1000))
			ask1(e, request(OpFixed, fmt.Sprint("fixed", i), 5, 1000))
			ask1(e, request(OpFixed, fmt.Sprint("long", i), 5, 86_400_000))
		}
		require.EqualValues(t, 4000, e.Keys())
		time.Sleep(2200 * time.Millisecond) // the test's own time: two windows and a visit
		require.EqualValues(t, 1000, e.Keys())
		require.EqualValues(t, 3000, e.Expired())
		require.LessOrEqual(t, e.Memory(), int64(1000*200))
		require.NoError(t, e.Close())
	})
}

func TestKeyOutlivesItsOldEnd(t *testing.T) {
	e, clock := setClock(t, EmbeddedConfig{})
	r := request(OpSlide, "k", 2, 1000)
	ask1(e, r)
	*clock += 900
	ask1(e, r)
	*clock = testBase + 1900 // the first is past, the second counts to its last ms
	e.sweepAll(*clock)
	require.EqualValues(t, 1, e.Keys())
	require.EqualValues(t, 1, ask1(e, request(OpInspect, "k", 0, 0)).States[0].Used)
	*clock++
	e.sweepAll(*clock)
	require.Zero(t, e.Keys())
	require.Zero(t, e.Memory())
}

func TestResetGivesMemoryBack(t *testing.T) {
	e, clock := setClock(t, EmbeddedConfig{})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		key := fmt.Sprint("k", rng.IntN(300))
		r := request(Op(1+rng.IntN(3)), key, 1000, 1000<<rng.IntN(4))
		if r.Op == OpCounter {
			r.Buckets = 1 + rng.Int64N(5)
		}
		ask1(e, r)
		*clock += rng.Int64N(3)
		if rng.IntN(20) == 0 {
			ask1(e, request(OpReset, key, 0, 0))
		}
	}
	require.Positive(t, e.Memory())
	for i := range 300 {
		ask1(e, request(OpReset, fmt.Sprint("k", i), 0, 0))
	}
	require.Zero(t, e.Keys())
	require.Zero(t, e.Memory())
	for i := range e.stripes {
		require.Empty(t, e.stripes[i].heap)
	}
}

func TestFullMemory(t *testing.T) {
	e, clock := setClock(t, EmbeddedConfig{MaxMemory: 1 << 20})
	live := request(OpSlide, "live", 60_000, 3_600_000)
	require.True(t, ask1(e, live).Allowed)
	flood := func(i int, fail Policy) Result {
		r := request(OpCounter, fmt.Sprintf("flood-%d", i), 10, 1000)
		r.Fail = fail
		return ask1(e, r)
	}
	i := 0
	for ; e.Refused() == 0; i++ {
		require.NoError(t, flood(i, PolicyDefault).Err)
		require.LessOrEqual(t, e.Memory(), int64(1<<20))
	}
	require.Greater(t, i, 3000)

	// What finds no room gets its policy.
	require.Equal(t, Decision{Allowed: false, Limit: 10, Remaining: -1, RetryAfter: 100, ResetAfter: 100}, flood(i, PolicyClosed).Decision)
	require.Equal(t, Decision{Allowed: true, Limit: 10, Remaining: -1}, flood(i, PolicyOpen).Decision)
	require.Equal(t, flood(i, PolicyClosed), flood(i, PolicyLocal))
	require.EqualError(t, flood(i, PolicyError).Err, "UNAVAILABLE embedded: memory is full")

	// What is there goes on, and a question needs no room.
	require.True(t, flood(0, PolicyError).Allowed)
	require.True(t, ask1(e, live).Allowed)
	free := request(OpSlide, "free", 3, 1000)
	free.Cost = 0
	require.EqualValues(t, 3, ask1(e, free).Remaining)

	// A log that needs a longer ring is refused whole, and stays as it was.
	more := live
	more.Fail = PolicyError
	var got Result
	for n := int64(2); got.Err == nil; n++ {
		*clock = testBase + n
		got = ask1(e, more)
		require.Less(t, n, int64(100))
	}
	states := ask1(e, request(OpInspect, "live", 0, 0)).States
	require.Equal(t, 60_000-states[0].Remaining, states[0].Used)

	// What has ended makes room at once, without the janitor; what lives stays.
	*clock = testBase + 10_000
	require.NoError(t, flood(i, PolicyError).Err)
	require.EqualValues(t, 2, e.Keys())
	require.EqualValues(t, i-1, e.Expired())
	require.True(t, ask1(e, more).Allowed)
}

func TestStatesOfAKeyAreBounded(t *testing.T) {
	e, clock := setClock(t, EmbeddedConfig{})
	for w := int64(1); w <= maxStates; w++ {
		require.NoError(t, ask1(e, request(OpSlide, "k", 1, w)).Err)
	}
	r := request(OpFixed, "k", 1, 1000)
	r.Fail = PolicyError
	require.Error(t, ask1(e, r).Err)
	*clock += 600 // more than half of them have ended
	require.True(t, ask1(e, r).Allowed)
	require.Len(t, ask1(e, request(OpInspect, "k", 0, 0)).States, maxStates-600+2)
}

func TestForwardNeedsABackend(t *testing.T) {
	e, _ := setClock(t, EmbeddedConfig{})
	require.ErrorIs(t, ask1(e, Request{Op: OpForward, Key: []byte("k")}).Err, ErrNoBackend)
}

// Many goroutines on few keys admit exactly the limit.
func TestEmbeddedConcurrently(t *testing.T) {
	e := NewEmbedded(EmbeddedConfig{Now: func() time.Time { return time.UnixMilli(testBase) }})
	const workers, calls, limit = 8, 500, 700
	admitted := make([]int, 5*workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			var p Pipeline
			for i := range calls {
				p.Reset()
				for k := range 5 {
					*p.Add() = request(OpSlide+Op(k%3), fmt.Sprint("k", k), limit, 60_000)
					*p.Add() = request(OpInspect, fmt.Sprint("k", k), 0, 0)
				}
				*p.Add() = request(OpReset, fmt.Sprint("other", i%7), 0, 0)
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
		require.Equal(t, limit, sum)
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
		make  func(key string) Request
	}{
		{"counter", 1_000_000, 1, 200, func(k string) Request { return request(OpCounter, k, 10, 60_000) }},
		{"fixed", 100_000, 1, 200, func(k string) Request { return request(OpFixed, k, 10, 60_000) }},
		{"buckets", 20_000, 1, 750, func(k string) Request {
			r := request(OpCounter, k, 10, 60_000)
			r.Buckets = 60
			return r
		}},
		{"slide", 100_000, 1, 320, func(k string) Request { return request(OpSlide, k, 10, 60_000) }},
		{"full slide", 300, 1000, 20_000, func(k string) Request { return request(OpSlide, k, 1000, 60_000) }},
		{"windows", 20_000, 1, 700, func(k string) Request {
			r := request(OpCounter, k, 10, 1000)
			r.N = 4
			for i := range r.N {
				r.Windows[i] = Window{10, int64(i+1) * 1000}
			}
			return r
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := heapBytes()
			e, clock := setClock(t, EmbeddedConfig{})
			empty := heapBytes() - before
			var p Pipeline
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

			*clock += 200_000 // all have ended: nearly all is given back
			e.sweepAll(*clock)
			require.Zero(t, e.Memory())
			require.Less(t, heapBytes()-before-empty, held/20+1<<20)
			runtime.KeepAlive(e)
		})
	}
}
