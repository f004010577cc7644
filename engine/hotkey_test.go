package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHotKeysAreTheBusiest(t *testing.T) {
	e := newEmbedded(EmbeddedConfig{})
	var p Pipeline
	for round := range 2000 {
		p.Reset()
		for i := range 20 {
			*p.Add() = slide(fmt.Sprint("cold", round*20+i), 10, 60000, 1)
		}
		for range 8 {
			*p.Add() = slide("hot", 1000, 60000, 1)
		}
		for range 4 {
			*p.Add() = slide("warm", 1_000_000, 60000, 1)
		}
		e.Do(&p)
	}
	keys := e.HotKeys(2)
	require.Len(t, keys, 2)
	require.Equal(t, "hot", string(keys[0].Key))
	require.EqualValues(t, 16000, keys[0].Admitted+keys[0].Denied)
	require.EqualValues(t, 1000, keys[0].Admitted)
	require.Equal(t, "warm", string(keys[1].Key))
	require.EqualValues(t, 8000, keys[1].Admitted)
	require.Positive(t, keys[1].Rate)
	require.Equal(t, 1, keys[0].Parts)
	require.LessOrEqual(t, len(e.HotKeys(1<<20)), hotStripes*hotWatched)
}
