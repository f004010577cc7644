package wire

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

func TestDecodeStates(t *testing.T) {
	all := KeyStates{Split: true, States: []Inspected{
		{Kind: limit.Concurrency, Param: 1, Limit: 10, TTL: 2000, Held: 3, Holds: 2, Lapsed: 7},
		{Kind: limit.Counter, Window: 60_000, Param: 6, Used: 5, Limit: 100, Rate: 1, TTL: 2000},
		{Kind: limit.Slide, Window: 1000, Param: 1, Used: 12, Limit: 10, TTL: 2000},
	}}
	states, split, err := DecodeStates(string(Pack(&all)), "node:1")
	require.NoError(t, err)
	require.True(t, split)
	require.Equal(t, []engine.Inspection{
		{Kind: limit.Slide, Window: 1000, Param: 1, Used: 12, Limit: 10, Node: "node:1", TTL: 2000},
		{Kind: limit.Counter, Window: 60_000, Param: 6, Used: 5, Limit: 100, Remaining: 95, Node: "node:1", TTL: 2000, Rate: 1},
		{Kind: limit.Concurrency, Param: 1, Limit: 10, Remaining: 7, Node: "node:1", TTL: 2000, Held: 3, Holds: 2, Lapsed: 7},
	}, states)

	all.States[1].Kind = 15
	_, _, err = DecodeStates(string(Pack(&all)), "")
	require.ErrorIs(t, err, errInconsistent, "no algorithm has this number")
	_, _, err = DecodeStates("", "")
	require.ErrorIs(t, err, errMalformed)
}
