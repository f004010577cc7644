package wire

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

func TestDecodeStates(t *testing.T) {
	counter := bytesOf(1, 2, 5, 60_000, 5, 6, 6, 5, 5, 100, 3, 1, 6, 2000, 6, 0, 3, 0, 4, 0)
	log := bytesOf(1, 1, 5, 1000, 5, 1, 6, 12, 5, 10, 3, 0, 6, 2000, 6, 0, 3, 0, 4, 0)
	slots := bytesOf(1, 8, 5, 0, 5, 1, 6, 0, 5, 10, 3, 0, 6, 2000, 6, 3, 3, 2, 4, 7)
	states, split, err := DecodeStates(join([]byte{1}, slots, counter, log), "node:1")
	require.NoError(t, err)
	require.True(t, split)
	require.Equal(t, []engine.Inspection{
		{Kind: limit.Slide, Window: 1000, Param: 1, Used: 12, Limit: 10, Node: "node:1", TTL: 2000},
		{Kind: limit.Counter, Window: 60_000, Param: 6, Used: 5, Limit: 100, Remaining: 95, Node: "node:1", TTL: 2000, Rate: 1},
		{Kind: limit.Concurrency, Param: 1, Limit: 10, Remaining: 7, Node: "node:1", TTL: 2000, Held: 3, Holds: 2, Lapsed: 7},
	}, states)

	_, _, err = DecodeStates(join([]byte{0}, counter[:10]), "")
	require.ErrorIs(t, err, errMalformed)
	_, _, err = DecodeStates(join([]byte{0, 15}, counter[1:]), "")
	require.ErrorIs(t, err, errInconsistent, "no algorithm has this number")
	_, _, err = DecodeStates("", "")
	require.Error(t, err)
}
