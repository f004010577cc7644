package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An entry's requests are answered as if they had come one by one.
func TestDecideRequestByRequest(t *testing.T) {
	s := spec(Slide, 10, 1000)
	s.Cost = 3
	us := []Usage{{Used: 2, Room: 40, Empty: 1001}}
	require.Equal(t, Decision{Allowed: true, Limit: 10, Remaining: 5, ResetAfter: 1001}, s.Decide(us, testBase, 2, 0))
	require.Equal(t, Decision{Allowed: true, Limit: 10, Remaining: 2, ResetAfter: 1001}, s.Decide(us, testBase, 2, 1))
	require.Equal(t, Decision{Limit: 10, Remaining: 2, RetryAfter: 40, ResetAfter: 1001}, s.Decide(us, testBase, 2, 2))
	require.Equal(t, s.Decide(us, testBase, 2, 2), s.Decide(us, testBase, 2, 3))
}

// With several windows, a denial describes the one with the longest retry and an admission the
// one with the least remaining; of equals, the one given first.
func TestDecidePicksTheWindow(t *testing.T) {
	s := spec(Fixed, 5, 1000)
	s.N, s.Windows[1], s.Windows[2] = 3, Window{9, 2000}, Window{5, 4000}
	for _, tt := range []struct {
		us      []Usage
		granted int64
		window  int
		left    int64
	}{
		{[]Usage{{Used: 1}, {Used: 1}, {Used: 1}}, 1, 0, 3},
		{[]Usage{{Used: 1}, {Used: 7}, {Used: 1}}, 1, 1, 1},
		{[]Usage{{Used: 5, Room: 7}, {Used: 9, Room: 90}, {Used: 0}}, 0, 1, 0},
		{[]Usage{{Used: 5, Room: 7}, {Used: 3}, {Used: 5, Room: 7}}, 0, 0, 0},
		{[]Usage{{Used: 5, Room: 7}, {Used: 3}, {Used: 5, Room: 8}}, 0, 2, 0},
		{[]Usage{{Used: 9, Room: 7}, {Used: 3}, {Used: 0}}, 0, 0, 0}, // a lowered limit: never negative
	} {
		d := s.Decide(tt.us, testBase, tt.granted, 0)
		require.Equal(t, tt.window, d.Window, "%+v", tt)
		require.Equal(t, s.Windows[tt.window].Limit, d.Limit, "%+v", tt)
		require.Equal(t, tt.left, d.Remaining, "%+v", tt)
		require.Equal(t, tt.granted > 0, d.Allowed)
	}
}

// An inconsistent reply is refused before it gets here. If one does get here, the answer is a
// valid denial and not a panic.
func TestDecideWithoutAWindowThatDenies(t *testing.T) {
	require.Equal(t, Decision{Limit: 5, Remaining: 5, RetryAfter: 1}, spec(Slide, 5, 1000).Decide([]Usage{{}}, testBase, 0, 0))
}

func TestFits(t *testing.T) {
	for _, tt := range []struct{ cost, used, n, want int64 }{
		{1, 0, 3, 3}, {1, 8, 3, 2}, {1, 10, 3, 0}, {4, 3, 9, 1}, {0, 9, 3, 3}, {0, 10, 3, 0}, {10, 0, 2, 1}, {1, 12, 1, 0},
	} {
		s := spec(Slide, 10, 1000)
		s.Cost = tt.cost
		require.Equal(t, tt.want, s.Fits(s.Windows[0], tt.used, tt.n), "%+v", tt)
	}
	full := rate(9, 1, 0)
	require.EqualValues(t, 1, full.Fits(full.Windows[0], 10, 1), "CL.THROTTLE with a quantity of 0 asks for nothing")
}

func TestNow(t *testing.T) {
	require.EqualValues(t, 7, spec(Slide, 1, 1).Now(5, 3, 7))
	require.EqualValues(t, 9, spec(Slide, 1, 1).Now(9, 3, 7))
	require.EqualValues(t, 5_000_003, rate(1, 1, 1).Now(5, 3, 7))
}
