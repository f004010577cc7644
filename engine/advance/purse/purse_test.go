package purse

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// unreachable are homes that answer no calls.
type unreachable struct{}

func (unreachable) Begin([]byte, *split.Call, func()) {}

// asked returns a request for one of 1,000 units in a minute.
func asked() *engine.Request {
	r := &engine.Request{Key: []byte("k")}
	r.Spec = limit.Spec{Kind: limit.Slide, N: 1, Cost: 1}
	r.Windows[0] = limit.Window{Limit: 1000, Length: 60_000}
	return r
}

func opened(t *testing.T) *Purse {
	p := Open(unreachable{}, time.Now)
	t.Cleanup(func() { p.Close(0) })
	p.Configure(250 * ms)
	return p
}

// A far node is asked again only if the answer can come in time. Otherwise the request is denied for a round trip: no
// FAIL policy answers, which might admit it.
func TestARequestWaitsForAdvancesAsLongAsItCan(t *testing.T) {
	p := opened(t)
	for _, c := range []struct {
		roundTrip, waited, patience time.Duration
		again                       bool
	}{
		{ms / 5, ms / 5, 87 * ms, true}, {ms / 5, 80 * ms, 87 * ms, false}, {81 * ms, 81 * ms, 87 * ms, false},
		{81 * ms, 81 * ms, 437 * ms, true}, {81 * ms, 350 * ms, 437 * ms, false},
	} {
		r, a := asked(), &wire.Answer{Requests: 1, Recalled: true, Usages: []limit.Usage{{Used: 1000, Empty: 60_000}}}
		require.Equal(t, c.again, p.Heard(r, a, c.roundTrip, c.waited, c.patience), c)
		if !c.again {
			require.Equal(t, c.roundTrip.Milliseconds()+1, r.Decide(a.Usages, 1e12, 0, 0).RetryAfter)
		}
	}
	a := &wire.Answer{Requests: 1, Usages: []limit.Usage{{Used: 1000, Room: 7}}}
	require.False(t, p.Heard(asked(), a, ms, ms, time.Second), "a denial is one")
	require.EqualValues(t, 7, a.Usages[0].Room)
}

// Keys that are cold, or near their limit, are not counted.
func TestOnlyHotKeysWithRoomAreCounted(t *testing.T) {
	p := opened(t)
	heard := func(used, rate int64, roundTrip time.Duration) int64 {
		a := &wire.Answer{Requests: 1, Granted: 1, Rate: rate, Usages: []limit.Usage{{Used: used}}}
		p.Heard(asked(), a, roundTrip, roundTrip, time.Second)
		return p.Size.Load()
	}
	require.Zero(t, heard(10, 127, ms/5))
	require.Zero(t, heard(875, 1000, ms/5))
	require.Zero(t, heard(10, 3, 81*ms))
	require.EqualValues(t, 1, heard(10, 4, 81*ms))
	p.Configure(0)
	require.EqualValues(t, 1, heard(10, 1000, ms/5))
}
