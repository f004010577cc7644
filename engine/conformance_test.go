package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// subject opens an engine whose decisions go by the clock given, in ms since the
// epoch, and closes it with the test. The clock is some decades ahead of the real
// one, as times to live in a node are real.
type subject func(t *testing.T, clock func() int64) Engine

// conformance holds an engine to the contract: by transcripts whose rows are the
// contract's numbers, and by random sequences against a model.
func conformance(t *testing.T, open subject) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "testdata/conformance/*.txt") })
	t.Run("random", func(t *testing.T) { randomRun(t, open, 100_000) })
}

func TestConformanceEmbedded(t *testing.T) {
	conformance(t, func(t *testing.T, clock func() int64) Engine {
		return withoutJanitor(t, clock)
	})
}

func TestConformanceEmbeddedCombined(t *testing.T) {
	conformance(t, func(t *testing.T, clock func() int64) Engine {
		return combined{withoutJanitor(t, clock)}
	})
}

// withoutJanitor opens an embedded engine that drops no key by itself: in these runs
// the clock steps back by hours, to when a key that ended had not.
func withoutJanitor(t *testing.T, clock func() int64) *Embedded {
	e := newEmbedded(EmbeddedConfig{Now: at(clock)})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// combined asks an embedded engine as the Redis engine asks its script: adjacent
// equal requests as one entry.
type combined struct{ *Embedded }

func (c combined) Do(p *Pipeline) {
	p.grow()
	clock := c.clock()
	for i := 0; i < len(p.Requests); {
		r, n := &p.Requests[i], 1
		switch r.Op {
		case OpSlide, OpCounter, OpFixed:
		default:
			one := Pipeline{Requests: p.Requests[i : i+1]}
			c.Embedded.Do(&one)
			p.Results[i] = one.Results[0]
			i++
			continue
		}
		for i+n < len(p.Requests) && equal(r, &p.Requests[i+n]) {
			n++
		}
		var vs [MaxWindows]verdict
		granted, _ := c.ask(clock, r, int64(n), &vs)
		for j := range n {
			p.Results[i+j].Decision = r.decide(vs[:r.N], clock, granted, int64(j), resetOf(r.Op))
		}
		i += n
	}
}

func equal(a, b *Request) bool {
	return a.Op == b.Op && string(a.Key) == string(b.Key) && a.Windows == b.Windows && a.N == b.N &&
		a.Cost == b.Cost && a.Buckets == b.Buckets && a.Strict == b.Strict
}
