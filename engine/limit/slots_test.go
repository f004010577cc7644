package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlotsAnswer(t *testing.T) {
	s := Spec{Kind: Concurrency, N: 1, Cost: 2, Param: 1, Windows: [MaxWindows]Window{{Limit: 5}}}
	for _, c := range []struct {
		what    string
		used    Usage
		granted int64
		want    Decision
	}{
		{"admitted", Usage{Used: 1, Empty: 30_000}, 1, Decision{Allowed: true, Limit: 5, Remaining: 2, ResetAfter: 30_000}},
		{"denied", Usage{Used: 4, Empty: 30_000, Room: 700}, 0, Decision{Limit: 5, Remaining: 1, RetryAfter: 700, ResetAfter: 30_000}},
		{"denied as slots were lowered", Usage{Used: 9, Empty: 9, Room: 9}, 0, Decision{Limit: 5, RetryAfter: 9, ResetAfter: 9}},
		{"nothing is held", Usage{}, 0, Decision{Limit: 5, Remaining: 5, RetryAfter: 1}},
	} {
		require.Equal(t, c.want, s.Decide([]Usage{c.used}, 1e12, c.granted, 0), c.what)
	}
	require.EqualValues(t, 200, s.Now(100, 3, 200), "a clock that steps back makes no slots free")
}
