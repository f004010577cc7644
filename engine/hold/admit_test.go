package hold

import (
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// A key that remembers as many ids as it may, all of them expired, has room for another one at once.
func TestExpiredIDsMakeRoom(t *testing.T) {
	k := &subject{mutant: sound()}
	ask := func(clock int64, id string, length int64, hold engine.Hold) error {
		hold.ID = engine.DigestOf([]byte(id))
		r := engine.Request{Spec: limit.Spec{Kind: limit.Slide, N: 1, Cost: 1, Param: 1}, Hold: &hold}
		r.Windows[0] = limit.Window{Limit: limit.MaxLimit, Length: length}
		_, err := k.decide(clock, &r)
		return err
	}
	for i := range 100 { // they expire first
		require.NoError(t, ask(base, fmt.Sprint("held", i), 60_000, engine.Hold{TTL: 10, Release: true}))
	}
	for i := range engine.MaxIDs {
		require.NoError(t, ask(base, fmt.Sprint("once", i), 20, engine.Hold{Once: true}))
	}
	require.ErrorIs(t, ask(base, "one more", 20, engine.Hold{Once: true}), engine.ErrIDs)
	require.NoError(t, ask(base+1000, "one more", 20, engine.Hold{Once: true}))
}
