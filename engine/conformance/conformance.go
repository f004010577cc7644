// Package conformance holds an engine to the contract: by transcripts whose rows
// are the contract's numbers, and by random sequences against a model that is too
// simple to be wrong. Only tests import it.
//
// Reading order: conformance.go (this file), transcript.go and transcripts/,
// random.go, model.go; holds.go and holds/ for what holds units or has an id; joint.go and joint/ for questions about
// several keys.
package conformance

import (
	"os"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Subject opens an engine whose decisions go by the clock given, in ms since the
// epoch, and closes it with the test. The clock is some decades ahead of the real
// one, as times to live in a node are real.
type Subject func(t *testing.T, clock func() int64) engine.Engine

// Run holds an engine to the contract of the RL commands, by the transcripts and by so
// many random requests. SOAK_REQUESTS in the environment sets another number, for a
// soak.
func Run(t *testing.T, open Subject, random int) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "transcripts/*.txt") })
	t.Run("random", func(t *testing.T) { randomRun(t, open, soak(t, random)) })
	t.Run("known answers", func(t *testing.T) { knownAnswers(t, open) })
}

// Soaks reports whether make soak runs the tests.
func Soaks() bool { return os.Getenv("SOAK_REQUESTS") != "" }

// soak returns how many random requests to send.
func soak(t *testing.T, random int) int {
	if !Soaks() {
		return random
	}
	n, err := strconv.Atoi(os.Getenv("SOAK_REQUESTS"))
	require.NoError(t, err, "SOAK_REQUESTS")
	return n
}

// knownAnswers has requests whose answer a policy knows among others about the same key.
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

// RunThrottle holds an engine to what redis-cell answers to CL.THROTTLE.
func RunThrottle(t *testing.T, open Subject) {
	transcripts(t, open, "throttle.txt")
}

// Request returns a request of cost 1 with one window, in ms.
func Request(kind limit.Kind, key string, most, window int64) engine.Request {
	return engine.Request{Key: []byte(key), Spec: limit.Spec{
		Kind: kind, N: 1, Windows: [limit.MaxWindows]limit.Window{{Limit: most, Length: window}}, Cost: 1, Buckets: 1,
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
	r.Cost, r.Buckets, r.Interval = quantity, 0, limit.Interval(count, period)
	return r
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

// Ask has an engine answer one request.
func Ask(e engine.Engine, r engine.Request) engine.Result {
	p := engine.Pipeline{Requests: []engine.Request{r}}
	e.Do(&p)
	return p.Results[0]
}
