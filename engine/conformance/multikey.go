package conformance

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// RunJoint checks the multi-key requests of an engine, by the transcripts and by a number of random requests. Unless exact is
// set, the random ones do not compare reset_after of keys with room in a denied request, and that of RL.COUNTER with BUCKETS may
// be a ms too long: an engine that holds units first may return too much.
func RunJoint(t *testing.T, open Subject, random int, exact bool) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "multikey/*.txt") })
	t.Run("windows", func(t *testing.T) { multiKeyWindows(t, open) })
	t.Run("lapses", func(t *testing.T) { multiKeyLapses(t, open) })
	most := 10 * random // in a soak, because each consists of many requests
	t.Run("random", func(t *testing.T) { randomJoint(t, open, min(Soak(t, random), most), exact) })
}

// multiKeyWindows checks that a multi-key request with more windows than one of its keys may have charges none of them.
func multiKeyWindows(t *testing.T, open Subject) {
	e := open(t, func() int64 { return Base })
	for i := range int64(engine.MaxStates) - 1 {
		require.NoError(t, Ask(e, Slide("full", 10, 60_000+i, 1)).Err)
	}
	full := Slide("full", 10, 50_000, 1)
	full.N, full.Windows[1] = 2, limit.Window{Limit: 10, Length: 40_000}
	p := engine.Pipeline{Requests: []engine.Request{Slide("other", 10, 60_000, 1), full}}
	p.Requests[0].MoreKeys = 1
	e.Do(&p)
	for _, res := range p.Results {
		require.ErrorContains(t, res.Err, engine.ErrStates.Error())
	}
	require.Empty(t, Ask(e, Inspect("other")).States)
	require.Len(t, Ask(e, Inspect("full")).States, engine.MaxStates-1)
}

// multiKeyLapses checks that a multi-key request reports the lapsed reservations that it removes.
func multiKeyLapses(t *testing.T, open Subject) {
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	held := Slide("held", 10, 60_000, 1)
	held.Hold = &engine.Hold{ID: engine.DigestOf([]byte("id")), TTL: 50, Release: true}
	require.True(t, Ask(e, held).Allowed)
	clock += 50
	p := engine.Pipeline{Requests: []engine.Request{Slide("other", 10, 60_000, 1), Slide("held", 10, 60_000, 1)}}
	p.Requests[0].MoreKeys = 1
	e.Do(&p)
	require.True(t, p.Results[1].Allowed)
	require.Equal(t, []int64{0, 1}, []int64{p.Results[0].Lapsed, p.Results[1].Lapsed})
}

// randomJoint sends random requests to an engine, some of them for several of five keys.
func randomJoint(t *testing.T, open Subject, requests int, exact bool) {
	h := newHistory(5, "ONCE")
	h.inexact = !exact
	h.run(t, open(t, h.clock), 8*requests, 5, func() { h.us += 1000 * h.Int64N([]int64{2, 2, 50, 500, 3000}[h.IntN(5)]) })
}
