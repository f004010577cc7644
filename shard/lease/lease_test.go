package lease

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateLife(t *testing.T) {
	for _, c := range []struct{ window, buckets, life int64 }{{1000, 0, 1000}, {1000, 1, 2000}, {1000, 3, 1334}, {10, 10, 11}} {
		t.Run(fmt.Sprint(c.window, "/", c.buckets), func(t *testing.T) {
			require.Equal(t, c.life, StateName{Window: c.window, Buckets: c.buckets}.Life())
		})
	}
}

func TestDemandFit(t *testing.T) {
	d := &Demand{Cost: 3, N: 4}
	for room, want := range map[int64]int64{-5: 0, 0: 0, 2: 0, 3: 1, 11: 3, 12: 4, 100: 4} {
		require.Equal(t, want, d.Fit(room), "room %d", room)
	}
}

func TestDemandMatchesOnlyTheSameLimitsInTheSameOrder(t *testing.T) {
	a, b := Pair{StateName{Window: 1000}, 10}, Pair{StateName{Window: 2000}, 10}
	d := &Demand{Pairs: []Pair{a, b}, Strict: true}
	require.True(t, d.Matches([]Pair{a, b}, true))
	require.False(t, d.Matches([]Pair{a, b}, false))
	require.False(t, d.Matches([]Pair{b, a}, true))
	require.False(t, d.Matches([]Pair{a}, true))
}
