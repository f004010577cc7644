package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testClock is a clock that a test sets, in ms.
type testClock struct{ ms int64 }

func (c *testClock) now() time.Time { return time.UnixMilli(c.ms) }

func TestEmbeddedSmoke(t *testing.T) {
	clock := &testClock{ms: testBase}
	e := newEmbedded(EmbeddedConfig{Now: clock.now})
	var got []bool
	for _, at := range []int64{0, 999, 1000, 1001, 1002, 1999, 2000} {
		clock.ms = testBase + at
		var p Pipeline
		*p.Add() = Request{Op: OpSlide, Key: []byte("k"), N: 1, Windows: [8]Window{{2, 1000}}, Cost: 1, Buckets: 1}
		e.Do(&p)
		got = append(got, p.Results[0].Allowed)
		if at == 1000 {
			require.EqualValues(t, 1, p.Results[0].RetryAfter)
		}
	}
	require.Equal(t, []bool{true, true, false, true, false, false, true}, got)
}
