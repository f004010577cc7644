package conformance

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
)

// Instants opens an engine that decides by the given clock, which is in whole us and never steps back, and by which
// its keys expire, too. The engine is closed at the end of the test.
type Instants func(t *testing.T, clock func() time.Time) engine.Engine

// RunInstants sends random requests with the shortest windows, the shortest times to live, and rates of up to one unit
// a ns. The clock stops anywhere within a ms, most often just before and after what was charged stops to matter: each
// decision must be that of a model, neither more units nor fewer.
func RunInstants(t *testing.T, open Instants, random int) {
	h := withIDs(3)
	h.With, h.expires = []string{"TTL"}, true
	h.Without = append(h.Without, "TZ") // calendar windows end at whole seconds
	h.From = map[string][]int64{
		"window": {1, 1, 2, 3, 5}, "limit": {1, 1, 2, 3, 12}, "TTL": {1, 2, 5}, "period": {1},
		"max_burst": {0, 0, 1, 9, 200}, "count": {300, 350, 900, 1000, 5000, 6000, 700_000, 1_000_000, 3_000_000, 1e9},
	}
	steps := Soak(t, random)
	h.run(t, open(t, func() time.Time { return time.UnixMicro(h.us) }), steps, 12, h.passInstants)
	h.requireHolds(t, steps)
}

// passInstants moves the clock forward: to within the ms, to its end, to the next few ms, or for so long that nothing
// short matters any more.
func (h *history) passInstants() {
	ms, beyond := h.us/1000, h.us%1000
	switch n := h.IntN(200); {
	case n < 40:
	case n < 100:
		beyond = min(beyond+h.Int64N(400), 999)
	case n < 130:
		beyond = 999
	case n < 170:
		ms, beyond = ms+1, h.Int64N(2)
	case n < 199:
		ms, beyond = ms+h.Int64N(8), beyond+h.Int64N(1000-beyond)
	default:
		ms += 5000
	}
	h.us = ms*1000 + beyond
}
