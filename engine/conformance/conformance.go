// Package conformance checks that an engine behaves as documented: by transcripts with the
// expected numbers, and by random histories against a model that is too simple to be wrong, package model.
// Only tests import it.
//
// Reading order: conformance.go (this file), transcript.go and transcripts/, lines.go (random command lines, also for other
// tests), random.go (histories of them), compare.go (and what a model says of them); holds.go and holds/ for requests that
// hold units or have an id; multikey.go and multikey/ for multi-key requests; instants.go for the ends of states and for
// rates, by a clock finer than a ms; advances.go for requests that are admitted from advances.
package conformance

import (
	"os"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Subject opens an engine that decides by the given clock, in ms since the epoch, and closes it
// at the end of the test. The clock is some decades ahead of the real one, because nodes
// expire keys by their real time.
type Subject func(t *testing.T, clock func() int64) engine.Engine

// Run checks the decisions of an engine, by the transcripts and by a number of random
// requests. SOAK_REQUESTS in the environment sets another number, for a soak.
func Run(t *testing.T, open Subject, random int) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "transcripts/*.txt") })
	t.Run("random", func(t *testing.T) { randomRun(t, open, Soak(t, random)) })
	t.Run("known answers", func(t *testing.T) { knownAnswers(t, open) })
}

// Soaks reports whether make soak runs the tests.
func Soaks() bool { return os.Getenv("SOAK_REQUESTS") != "" }

// Soak returns how many random requests to send: as many as make soak asks for, or random.
func Soak(t *testing.T, random int) int {
	if !Soaks() {
		return random
	}
	n, err := strconv.Atoi(os.Getenv("SOAK_REQUESTS"))
	require.NoError(t, err, "SOAK_REQUESTS")
	return n
}

// knownAnswers mixes requests that a policy's verdict answers with others for the same key.
func knownAnswers(t *testing.T, open Subject) {
	e := open(t, func() int64 { return 3_000_000_000_000 })
	slide := Slide("k", 2, 60_000, 1)
	unlimited, blocked := slide, engine.Request{Key: []byte("k"), Spec: limit.Spec{Cost: 1}, Verdict: engine.Blocked}
	unlimited.Verdict = engine.Unlimited
	p := engine.Pipeline{Requests: []engine.Request{slide, unlimited, blocked, slide, unlimited, slide, blocked, Inspect("k")}}
	e.Do(&p)
	admit := func(remaining int64) limit.Decision {
		return limit.Decision{Allowed: true, Limit: 2, Remaining: remaining, ResetAfter: 60_001}
	}
	free := limit.Decision{Allowed: true}
	never := limit.Decision{RetryAfter: 1000, ResetAfter: 1000}
	deny := limit.Decision{Limit: 2, RetryAfter: 60_001, ResetAfter: 60_001}
	for i, want := range []limit.Decision{admit(1), free, never, admit(0), free, deny, never} {
		require.Equal(t, want, p.Results[i].Decision, i)
	}
	require.EqualValues(t, 2, p.Results[7].States[0].Used)
}

// Kinds returns the kinds with a property: Kinds(limit.Kind.Windowed) are those that count in windows.
func Kinds(has func(limit.Kind) bool) (kinds []limit.Kind) {
	for k := range limit.Kind(limit.Kinds) {
		if has(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Request returns a request of cost 1 with one window, in ms.
func Request(kind limit.Kind, key string, most, window int64) engine.Request {
	return engine.Request{Key: []byte(key), Spec: limit.Spec{
		Kind: kind, N: 1, Windows: [limit.MaxWindows]limit.Window{{Limit: most, Length: window}}, Cost: 1, Param: 1,
	}}
}

// Slide returns a request as RL.SLIDE makes it.
func Slide(key string, most, window, cost int64) engine.Request {
	r := Request(limit.Slide, key, most, window)
	r.Cost = cost
	return r
}

// Throttle returns a request as CL.THROTTLE makes it; the period is in seconds.
func Throttle(key string, burst, count, period, quantity int64) engine.Request {
	r := Request(limit.GCRA, key, burst+1, 0)
	r.Cost, r.Param, r.Manner = quantity, 0, limit.Interval(count, period)
	return r
}

// Equal returns the indexes of the later requests that are equal to request i, with no other about the key before them. An
// engine may charge them all at one moment, and say of each when the units of all of them are forgotten.
func Equal(requests []engine.Request, i int) (later []int) {
	r := &requests[i]
	for j := i + 1; j < len(requests); j++ {
		if o := &requests[j]; string(o.Key) == string(r.Key) {
			if !r.Repeats(o) {
				break
			}
			later = append(later, j)
		}
	}
	return later
}

// Reset returns an RL.RESET of a key.
func Reset(key string) engine.Request {
	return engine.Request{Op: engine.OpReset, Key: []byte(key)}
}

// Inspect returns an RL.INSPECT of a key.
func Inspect(key string) engine.Request {
	return engine.Request{Op: engine.OpInspect, Key: []byte(key)}
}

// Settle returns an RL.SETTLE of a key, or an RL.RELEASE if kind is limit.Concurrency.
func Settle(key string, kind limit.Kind, id string, cost int64) engine.Request {
	return engine.Request{Op: engine.OpSettle, Key: []byte(key), Spec: limit.Spec{Kind: kind, Cost: cost}, Hold: &engine.Hold{ID: engine.DigestOf([]byte(id))}}
}

// Renew returns an RL.RENEW of a key.
func Renew(key, id string, ttl int64) engine.Request {
	return engine.Request{Op: engine.OpRenew, Key: []byte(key), Spec: limit.Spec{Kind: limit.Concurrency}, Hold: &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: ttl}}
}

// Ask returns an engine's answer to one request.
func Ask(e engine.Engine, r engine.Request) engine.Result {
	p := engine.Pipeline{Requests: []engine.Request{r}}
	e.Do(&p)
	return p.Results[0]
}
