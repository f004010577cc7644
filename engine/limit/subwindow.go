package limit

import "math"

// The arithmetic of sub-windows. A window of w ms is n sub-windows long; sub-window
// k holds the ms t at which floor(t*n/w) = k, so sub-windows start at multiples of
// their length since the epoch. What is used at t is
//
//	floor(oldest*(w-e)/w) + rest, e = (t*n) mod w
//
// where oldest is the count of sub-window k-n and rest the sum of k-n+1 to k. The
// weight is computed in float64, the product first, because the Lua of a node has
// no other numbers: both engines then agree to the unit. t*n stays below 2^53 for
// every n up to MaxBuckets until the year 2255, so indices are exact in both.

// subIndex returns the sub-window that holds t.
func subIndex(t, n, w int64) int64 {
	return t * n / w
}

// subStart returns the first ms of sub-window k. No sub-window is empty, since
// n is at most w.
func subStart(k, n, w int64) int64 {
	return (k*w + n - 1) / n
}

// weigh returns the units of the oldest sub-window that count; e is (t*n) mod w.
func weigh(oldest, w, e int64) int64 {
	return int64(math.Floor(float64(oldest) * float64(w-e) / float64(w)))
}

// usedAt returns the units used at t, when sub-window k is the newest.
func usedAt(t, k, n, w, oldest, rest int64, strict bool) int64 {
	if strict {
		return oldest + rest
	}
	return weigh(oldest, w, t*n-k*w) + rest
}

// lighter returns the first ms, from the given one on, at which sub-window k is the
// newest and its oldest counts at most y. If there is none it returns the first ms
// of sub-window k+1.
//
// The weight never grows within a sub-window, so the real-number solution of
// oldest*(w-e)/w < y+1 is at most a rounding error away from the ms sought.
func lighter(oldest, y, k, n, w, from int64, strict bool) int64 {
	from, end := max(from, subStart(k, n, w)), subStart(k+1, n, w)
	if from >= end {
		return end
	}
	if oldest <= y {
		return from
	}
	if strict {
		return end
	}
	fits := func(t int64) bool { return weigh(oldest, w, t*n-k*w) <= y }
	e := math.Floor(float64(w)-float64(y+1)*float64(w)/float64(oldest)) + 1
	t := min(max((k*w+int64(e)+n-1)/n, from), end)
	for t > from && fits(t-1) {
		t--
	}
	for t < end && !fits(t) {
		t++
	}
	return t
}
