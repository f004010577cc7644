package observe

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/stretchr/testify/require"
)

func TestHotKeysAreTheBusiest(t *testing.T) {
	b := newBusiest(time.Now)
	seen := 0
	observe := func(key string, allowed bool) {
		p := engine.Pipeline{Requests: []engine.Request{{Key: []byte(key)}}, Results: make([]engine.Result, 1)}
		p.Results[0].Allowed = allowed
		b.observe(&p)
	}
	for round := range 2000 {
		for i := range 20 {
			observe(fmt.Sprint("cold", round*20+i), true)
		}
		for range 8 {
			seen++
			observe("hot", seen <= 1000)
		}
		for range 4 {
			observe("warm", true)
		}
	}
	keys := b.top(2)
	require.Len(t, keys, 2)
	require.Equal(t, "hot", string(keys[0].Key))
	require.EqualValues(t, 16000, keys[0].Admitted+keys[0].Denied)
	require.EqualValues(t, 1000, keys[0].Admitted)
	require.Equal(t, "warm", string(keys[1].Key))
	require.EqualValues(t, 8000, keys[1].Admitted)
	require.Positive(t, keys[1].Rate)
	require.Equal(t, 1, keys[0].Shards)
	require.LessOrEqual(t, len(b.top(1<<20)), hotStripes*hotTracked)
}
