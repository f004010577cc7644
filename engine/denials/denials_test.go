package denials

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// denied is a denial as a node gives it.
func denied(retry int64) limit.Decision {
	return limit.Decision{Limit: 5, RetryAfter: retry, ResetAfter: retry + 70}
}

// answer returns what is remembered about a request.
func answer(m *Cache, r engine.Request, now int64) (limit.Decision, bool) {
	var res engine.Result
	known := m.Answer(&r, now, &res)
	return res.Decision, known
}

// A denial answers the same request until its retry-after has passed, and counts down. The last ms is left to the node, whose
// clock may be a part of a ms ahead.
func TestDenialsCountDown(t *testing.T) {
	var m Cache
	r := conformance.Slide("k", 5, 60_000, 2)
	m.Remember(&r, denied(300), 1000, m.Resets())
	require.EqualValues(t, 1, m.Kept())
	for _, row := range []struct{ now, retry, reset int64 }{{1000, 300, 370}, {1001, 299, 369}, {1298, 2, 72}} {
		got, known := answer(&m, r, row.now)
		require.True(t, known)
		require.Equal(t, limit.Decision{Limit: 5, RetryAfter: row.retry, ResetAfter: row.reset}, got)
	}
	require.EqualValues(t, 3, m.Answers())
	m.Repeat()
	require.EqualValues(t, 4, m.Answers())
	_, known := answer(&m, r, 1299)
	require.False(t, known, "there may be room")
	require.Zero(t, m.Kept())
	_, known = answer(&m, r, 1200)
	require.False(t, known, "it is forgotten")
}

// Only equal requests are answered from memory. The node may admit another request that counts in the same state, or
// say that there is room, so such a request removes the denial.
func TestOtherRequestsAreNotAnswered(t *testing.T) {
	var m Cache
	r := conformance.Slide("k", 5, 60_000, 2)
	for _, row := range []struct {
		why    string
		change func(r *engine.Request)
		ends   bool
	}{
		{"another key", func(r *engine.Request) { r.Key = []byte("other") }, false},
		{"another cost", func(r *engine.Request) { r.Cost = 1 }, true},
		{"another cost, with an id", func(r *engine.Request) { r.Cost, r.Hold = 1, &engine.Hold{} }, true},
		{"no cost", func(r *engine.Request) { r.Cost = 0 }, true},
		{"a raised limit", func(r *engine.Request) { r.Windows[0].Limit = 6 }, true},
		{"a lowered limit", func(r *engine.Request) { r.Windows[0].Limit = 4 }, true},
		{"another window", func(r *engine.Request) { r.Windows[0].Length = 60_001 }, false},
		{"one more window", func(r *engine.Request) { r.N, r.Windows[1] = 2, limit.Window{Limit: 9, Length: 9} }, true},
		{"another command", func(r *engine.Request) { r.Kind = limit.Fixed }, false},
		{"a rate", func(r *engine.Request) { *r = conformance.Throttle("k", 4, 1, 60, 2) }, false},
		{"more sub-windows", func(r *engine.Request) { r.Param = 2 }, false},
		{"STRICT", func(r *engine.Request) { r.Manner = limit.Strict }, true},
		{"an id", func(r *engine.Request) { r.Hold = &engine.Hold{} }, false},
		{"a reset", func(r *engine.Request) { *r = conformance.Reset("k") }, false}, // see Forget
		{"an inspection", func(r *engine.Request) { *r = conformance.Inspect("k") }, true},
	} {
		m.Remember(&r, denied(300), 1000, m.Resets())
		other := r
		row.change(&other)
		_, known := answer(&m, other, 1001)
		require.False(t, known, row.why)
		_, known = answer(&m, r, 1001)
		require.Equal(t, !row.ends, known, row.why)
		if other.Op == engine.OpDecide {
			m.Remember(&r, denied(300), 1000, m.Resets())
			m.Outdate(&other)
			_, known = answer(&m, r, 1001)
			require.Equal(t, !row.ends, known, "%s, together with another key", row.why)
		}
	}
	m.Remember(&r, denied(300), 1000, m.Resets())
	same := r
	same.Fail, same.ID, same.Shards = engine.FailOpen, []byte("someone"), 4
	_, known := answer(&m, same, 1001)
	require.True(t, known, "who asks does not matter")

	rate := conformance.Throttle("k", 4, 1, 60, 1)
	m.Remember(&rate, denied(300), 1000, m.Resets())
	_, known = answer(&m, rate, 1001)
	require.True(t, known)
	faster := conformance.Throttle("k", 4, 2, 60, 1)
	_, known = answer(&m, faster, 1001)
	require.False(t, known, "another rate")
	require.Zero(t, m.Kept(), "a key has one state, whatever the rate")
}

// A denial is remembered for at most a second, because the message of a reset elsewhere may be
// lost. Denials without a retry-after, or with one of a ms, or of requests without cost, are not remembered.
func TestWhatIsRemembered(t *testing.T) {
	var m Cache
	r := conformance.Slide("k", 5, 60_000, 2)
	m.Remember(&r, denied(60_000), 1000, m.Resets())
	got, known := answer(&m, r, 1000+maxAge-1)
	require.True(t, known)
	require.EqualValues(t, 60_000-maxAge+1, got.RetryAfter)
	_, known = answer(&m, r, 1000+maxAge)
	require.False(t, known)

	m.Remember(&r, denied(0), 1000, m.Resets())
	m.Remember(&r, denied(1), 1000, m.Resets())
	peek := r
	peek.Cost = 0
	m.Remember(&peek, denied(300), 1000, m.Resets())
	require.Zero(t, m.Kept())

	m.Remember(&r, denied(300), 1000, m.Resets())
	_, known = answer(&m, r, 999)
	require.False(t, known, "the clock stepped back")
}

// A newer denial of a key replaces the older one.
func TestOneDenialAKey(t *testing.T) {
	var m Cache
	r, other := conformance.Slide("k", 5, 60_000, 2), conformance.Slide("k", 5, 60_000, 3)
	m.Remember(&r, denied(300), 1000, m.Resets())
	m.Remember(&other, denied(400), 1000, m.Resets())
	require.EqualValues(t, 1, m.Kept())
	got, known := answer(&m, other, 1001)
	require.True(t, known)
	require.EqualValues(t, 399, got.RetryAfter)
	_, known = answer(&m, r, 1001)
	require.False(t, known)
}

// A reset forgets its key, and whatever a node said before it.
func TestResetsForget(t *testing.T) {
	var m Cache
	r, other := conformance.Slide("k", 5, 60_000, 2), conformance.Slide("other", 5, 60_000, 2)
	before := m.Resets()
	m.Remember(&r, denied(300), 1000, before)
	m.Remember(&other, denied(300), 1000, before)
	m.Forget(r.Key)
	require.EqualValues(t, 1, m.Kept())
	_, known := answer(&m, r, 1001)
	require.False(t, known)
	_, known = answer(&m, other, 1001)
	require.True(t, known)
	m.Remember(&r, denied(300), 1000, before)
	_, known = answer(&m, r, 1001)
	require.False(t, known, "the node was asked before the reset")

	m.Remember(&r, denied(300), 1000, m.Resets())
	before = m.Resets()
	m.ForgetAll()
	require.Zero(t, m.Kept())
	m.Remember(&r, denied(300), 1000, before)
	require.Zero(t, m.Kept())
	for i := range 10_000 { // some are where the denials of r and other were
		more := conformance.Slide(fmt.Sprint(i), 5, 60_000, 2)
		m.Remember(&more, denied(300), 1000, m.Resets())
	}
	for _, gone := range []engine.Request{r, other} {
		_, known = answer(&m, gone, 1001)
		require.False(t, known)
	}
}

func TestDenialsAreBounded(t *testing.T) {
	var m Cache
	for i := range 10 * maxDenials {
		r := conformance.Slide(fmt.Sprint("key", i), 1, 1000, 1)
		m.Remember(&r, denied(500), 0, 0)
	}
	require.LessOrEqual(t, m.Kept(), int64(maxDenials))
	require.Greater(t, m.Kept(), int64(maxDenials/2), "there is room for many")
	kept := 0
	for i := range m.stripes {
		kept += len(m.stripes[i].denied)
	}
	require.EqualValues(t, m.Kept(), kept)
	m.ForgetAll()
	require.Zero(t, m.Kept())
}

// Whatever many goroutines do at once, the count is right, and no answer is another
// key's.
func TestDenialsConcurrently(t *testing.T) {
	var m Cache
	var done sync.WaitGroup
	for g := range 8 {
		done.Add(1)
		go func() { // for its rounds
			defer done.Done()
			for i := range int64(2000) {
				key := i % 37
				r := conformance.Slide(fmt.Sprint("key", key), key+1, 60_000, 1)
				decision := denied(500)
				decision.Limit = key + 1
				switch (int(i) + g) % 5 {
				case 0:
					m.Forget(r.Key)
				case 1:
					if g == 0 && i%100 == 0 {
						m.ForgetAll()
					}
				default:
					if got, known := answer(&m, r, i); known && got.Limit != key+1 {
						t.Errorf("key %d was answered %+v", key, got)
					}
					m.Remember(&r, decision, i, m.Resets())
				}
			}
		}()
	}
	done.Wait()
	kept := 0
	for i := range m.stripes {
		kept += len(m.stripes[i].denied)
	}
	require.EqualValues(t, m.Kept(), kept)
}

// Long keys take the place of more than one short one.
func TestKeysOfDenialsAreBoundedInBytes(t *testing.T) {
	var m Cache
	for i := range 2 * maxDenials {
		r := conformance.Slide(fmt.Sprint(strings.Repeat("k", 4000), i), 1, 1000, 1)
		m.Remember(&r, denied(500), 0, 0)
	}
	require.Greater(t, m.Kept(), int64(maxKeyBytes/4096/2))
	for i := range m.stripes {
		require.LessOrEqual(t, m.stripes[i].keyBytes, maxKeyBytes/stripes)
	}
	m.ForgetAll()
	for i := range m.stripes {
		require.Zero(t, m.stripes[i].keyBytes)
	}
	r := conformance.Slide("k", 1, 1000, 1)
	m.Remember(&r, denied(500), 0, m.Resets())
	require.EqualValues(t, 1, m.Kept())
	m.Forget(r.Key)
	for i := range m.stripes {
		require.Zero(t, m.stripes[i].keyBytes)
	}
}
