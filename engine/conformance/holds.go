package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// RunHolds checks RL.RESERVE, RL.HOLD, RL.SETTLE, RL.ACQUIRE, RL.RENEW, RL.RELEASE and ONCE of an engine, by the transcripts and by
// a number of random requests.
func RunHolds(t *testing.T, open Subject, random int) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "holds/*.txt") })
	t.Run("random", func(t *testing.T) { randomHolds(t, open, Soak(t, random)) })
	t.Run("windows", func(t *testing.T) { boundedWindows(t, open) })
	t.Run("deadlines", func(t *testing.T) { manyDeadlines(t, open) })
}

// boundedWindows checks that an engine counts the charged and the held windows of a key together.
func boundedWindows(t *testing.T, open Subject) {
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	ask := func(key string, held bool, window int64) error {
		r := Slide(key, 10, window, 1)
		if held {
			r.Hold = &engine.Hold{ID: engine.DigestOf(fmt.Append(nil, window)), TTL: 30_000}
		}
		return Ask(e, r).Err
	}
	// Of the two windows of a request, one is too many, although the second one has a state, which has expired.
	for _, hold := range []bool{false, true} {
		key := fmt.Sprint("revived-", hold)
		require.NoError(t, ask(key, false, 1))
		for i := range int64(engine.MaxStates) - 1 {
			require.NoError(t, ask(key, false, 60_000+i))
		}
		clock += 500
		both := Slide(key, 10, 50_000, 1)
		both.N, both.Windows[1] = 2, limit.Window{Limit: 10, Length: 1}
		if hold {
			both.Hold = &engine.Hold{ID: engine.DigestOf([]byte("both")), TTL: 30_000}
		}
		require.ErrorContains(t, Ask(e, both).Err, engine.ErrStates.Error(), key)
		require.Len(t, Ask(e, Inspect(key)).States, engine.MaxStates-1)
	}
	for held := range 4 { // of three windows
		key := fmt.Sprint("windows-", held)
		for i := range int64(engine.MaxStates) {
			require.NoError(t, ask(key, i%3 < int64(held), 60_000+i))
		}
		for _, hold := range []bool{false, true} {
			require.ErrorContains(t, ask(key, hold, 50_000), engine.ErrStates.Error(), "%s, held: %v", key, hold)
			require.NoError(t, ask(key, hold, 60_000), "%s, held: %v", key, hold)
		}
	}
}

// withIDs begins a history of requests with ids and without.
func withIDs(keys int) *history {
	h := newHistory(keys, "AND")
	h.ids = true
	for name, times := range map[string]int{"RL.RESERVE": 15, "RL.HOLD": 15, "RL.SETTLE": 15, "RL.ACQUIRE": 8, "RL.RENEW": 4, "RL.RELEASE": 4, "RL.INSPECT": 2} {
		h.commands = append(h.commands, slices.Repeat([]string{name}, times)...)
	}
	slices.Sort(h.commands) // from a seed, the same lines follow
	h.Keys = h.Keys[:keys]
	return h
}

// requireHolds requires that all happened that requests with ids are about, of which a short run may miss some.
func (h *history) requireHolds(t *testing.T, steps int) {
	if steps < 20_000 {
		return
	}
	for _, what := range []string{"held", "again", "lapsed", "settled", "not settled", "renewed", "not renewed"} {
		require.Positive(t, h.seen[what], what)
	}
}

// randomHolds sends random requests to an engine, with ids and without.
func randomHolds(t *testing.T, open Subject, steps int) {
	h := withIDs(2)
	h.run(t, open(t, h.clock), steps, 12, h.pass)
	h.requireHolds(t, steps)
}

// RunAlike sends random requests, with ids and without, to two engines, and checks that RL.INSPECT shows the same on both.
func RunAlike(t *testing.T, open, other Subject, random int) {
	h := withIDs(2)
	one, two := open(t, h.clock), other(t, h.clock)
	for step := range Soak(t, random) {
		if step%200 == 0 {
			h.Narrow()
		}
		var p, q engine.Pipeline
		h.request(&p)
		q.Requests = slices.Clone(p.Requests)
		one.Do(&p)
		two.Do(&q)
		require.Empty(t, h.compare(&p), "-seed %d, step %d", h.seed, step)
		inspect := Inspect(string(p.Requests[0].Key))
		want, got := shown(Ask(one, inspect).States), shown(Ask(two, inspect).States)
		require.Equal(t, want, got, "-seed %d, step %d, clock base+%d us: %s", h.seed, step, h.us-Base*1000, describe(&p.Requests[0]))
		if step%4 == 0 {
			h.pass()
		}
	}
	t.Logf("seed %d: %v", h.seed, h.seen)
}

// shown returns the states in the order of RL.INSPECT without what may differ between engines: the node, the rate of a
// state that may have expired, and been dropped, within the last 2 s, and a state in which nothing counts any more.
func shown(states []engine.Inspection) []engine.Inspection {
	var some []engine.Inspection
	for _, s := range states {
		if s.Used == 0 && s.Held == 0 && s.Holds == 0 {
			continue
		}
		s.Node = ""
		if long := s.Kind == limit.Slide || s.Kind == limit.Counter; s.Kind != limit.Concurrency && (!long || s.Window < 2000) {
			s.Rate = 0
		}
		some = append(some, s)
	}
	return some
}
