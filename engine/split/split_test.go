package split

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// A pipeline about a key that the proxy did not know to be split leaves requests about the whole key
// together with others. They are answered in order.
func TestRequestsAboutAWholeKeyKeepTheirPlace(t *testing.T) {
	s, n := open(t, 3, Config{})
	var forgets, charged, wrong atomic.Bool
	n.reply = func(c *Call) {
		cost, reset := 0, false
		if c.Function == lua.Lend {
			spec := lendOf(c).Spec
			cost, reset = int(spec[5]), spec[7] == 5
		}
		switch {
		case c.Function == lua.Forget:
			wrong.Store(wrong.Load() || charged.Load())
			forgets.Store(true)
			c.Reply = forgotten(true)
		case reset:
			for i := 0; i < 10_000 && !charged.Load(); i++ {
				runtime.Gosched() // gives later requests the opportunity to come first
			}
			c.Reply = wholeReply(0)
		case cost > 0:
			charged.Store(true)
			wrong.Store(wrong.Load() || !forgets.Load())
			c.Reply = homeReply(1, 3, 0)
		default:
			wrong.Store(wrong.Load() || !charged.Load())
			c.Reply = homeReply(0, 3, 1)
		}
	}
	requests := left(nil, conformance.Reset("k"), ask("k", 10, 3), peek(10), peek(10))
	resolve(t, s, requests)
	for _, r := range requests {
		require.Nil(t, r.Failure)
	}
	require.False(t, wrong.Load())
	require.True(t, requests[0].Result.Reset)
	require.EqualValues(t, 9, requests[3].Result.Remaining)
}

func TestTogether(t *testing.T) {
	reset, other := conformance.Reset("k"), ask("other", 10, 3)
	one, two := ask("k", 10, 3), ask("k", 20, 3)
	require.Equal(t, 4, together(left(nil, one, two, other, one)))
	require.Equal(t, 2, together(left(nil, one, other, reset)))
	require.Equal(t, 2, together(left(nil, reset, other, one)))
	require.Equal(t, 3, together(left(nil, peek(10), other, peek(10))))
	require.Equal(t, 1, together(left(nil, peek(10), peek(20))))
}
