// Package histogram counts durations. Its histograms can be read while durations are being added.
//
// The buckets are log-linear, as in HdrHistogram (Gil Tene, hdrhistogram.org): each power of two is divided into eight
// equal parts, so a quantile is at most an eighth too high. The bounds include every power of two of microseconds.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	unit     = time.Microsecond / parts // the width of the narrowest buckets
	parts    = 8                        // buckets for each power of two
	partBits = 3                        // bits of an index within a power of two
	octaves  = 30                       // number of powers of two: the largest bound is above 100 s
	buckets  = octaves * parts          // number of buckets
)

// H is a histogram of durations. The zero H is empty. It is safe for concurrent use, takes 2 KB and never allocates.
type H struct {
	counts [buckets]atomic.Int64 // durations in each bucket
	sum    atomic.Int64          // sum of the durations, in ns
}

// Add counts n occurrences of a duration.
func (h *H) Add(d time.Duration, n int64) {
	d = max(d, 0)
	h.counts[index(d)].Add(n)
	h.sum.Add(int64(d) * n)
}

// Snapshot returns what has been counted so far.
func (h *H) Snapshot() *Snapshot {
	s := &Snapshot{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		s.counts[i] = h.counts[i].Load()
		s.Count += s.counts[i]
	}
	return s
}

// Snapshot is the state of a histogram at one time. Durations that were being added at that time
// may be missing from Count or Sum.
type Snapshot struct {
	Count  int64          // number of durations
	Sum    time.Duration  // sum of all durations
	counts [buckets]int64 // durations in each bucket
}

// Since returns what was counted between earlier, a snapshot of the same histogram, and s.
func (s *Snapshot) Since(earlier *Snapshot) *Snapshot {
	d := &Snapshot{Count: s.Count - earlier.Count, Sum: s.Sum - earlier.Sum}
	for i := range d.counts {
		d.counts[i] = s.counts[i] - earlier.counts[i]
	}
	return d
}

// Merge adds the counts of other to s.
func (s *Snapshot) Merge(other *Snapshot) {
	s.Count += other.Count
	s.Sum += other.Sum
	for i := range s.counts {
		s.counts[i] += other.counts[i]
	}
}

// Quantile returns the q-quantile of the durations, for q from 0 to 1. The result is at most an
// eighth too high. It is 0 if there are no durations.
func (s *Snapshot) Quantile(q float64) time.Duration {
	rank := max(int64(q*float64(s.Count)+0.5), 1)
	seen, last := int64(0), time.Duration(0)
	for i, n := range s.counts {
		if n <= 0 {
			continue
		}
		last = bound(i)
		if seen += n; seen >= rank {
			break
		}
	}
	return last
}

// AtMost returns the number of durations that are not greater than d. d should be a power of two
// of microseconds. Other values are rounded down to the bound of a bucket.
func (s *Snapshot) AtMost(d time.Duration) (n int64) {
	for i := 0; i < buckets && bound(i) <= d; i++ {
		n += s.counts[i]
	}
	return n
}

// index returns the index of a duration's bucket: the first one whose bound is not less.
func index(d time.Duration) int {
	v := uint64((d + unit - 1) / unit) // in units, rounded up
	if v > 0 {
		v-- // a bound belongs to the bucket below it
	}
	if v < parts {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - partBits
	return min((shift+1)*parts+int(v>>shift)&(parts-1), buckets-1)
}

// bound returns the longest duration that belongs to bucket i. Longer durations than that of the
// last bucket are counted there too.
func bound(i int) time.Duration {
	if i < parts {
		return time.Duration(i+1) * unit
	}
	shift := i/parts - 1
	return time.Duration((parts+i%parts+1)<<shift) * unit
}
