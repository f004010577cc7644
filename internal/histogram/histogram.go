// Package histogram counts durations, so that their distribution can be asked for while
// they are being counted.
//
// The buckets are log-linear, as in HdrHistogram (Gil Tene, hdrhistogram.org): each power
// of two is divided into eight equal parts, so a quantile is at most an eighth too high.
// The bounds include every power of two of microseconds.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	unit    = time.Microsecond / parts // the width of the narrowest buckets
	parts   = 8                        // buckets for each power of two
	octave  = 3                        // the bits of an index within a power of two
	octaves = 30                       // powers of two: the largest bound is above 100 s
	buckets = octaves * parts
)

// H is a histogram of durations. The zero H is empty. It is safe for concurrent use, takes
// 2 KB and never allocates.
type H struct {
	counts [buckets]atomic.Int64
	sum    atomic.Int64 // of the durations, in ns
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

// Snapshot is what a histogram had counted at one time. It may miss a few of the durations
// that were being counted at that time, in Count or in Sum.
type Snapshot struct {
	Count  int64
	Sum    time.Duration // of all durations
	counts [buckets]int64
}

// Since returns what was counted between earlier, a snapshot of the same histogram, and s.
func (s *Snapshot) Since(earlier *Snapshot) *Snapshot {
	d := &Snapshot{Count: s.Count - earlier.Count, Sum: s.Sum - earlier.Sum}
	for i := range d.counts {
		d.counts[i] = s.counts[i] - earlier.counts[i]
	}
	return d
}

// Merge adds what other has counted.
func (s *Snapshot) Merge(other *Snapshot) {
	s.Count += other.Count
	s.Sum += other.Sum
	for i := range s.counts {
		s.counts[i] += other.counts[i]
	}
}

// Quantile returns a duration that the share q of all durations, from 0 to 1, do not
// exceed. It is at most an eighth too high, or 0 if nothing was counted.
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

// AtMost returns how many durations are not greater than d, which should be a power of two
// of microseconds: any other is rounded down to the bound of a bucket.
func (s *Snapshot) AtMost(d time.Duration) (n int64) {
	for i := 0; i < buckets && bound(i) <= d; i++ {
		n += s.counts[i]
	}
	return n
}

// index returns the bucket of a duration: the first one whose bound is not less.
func index(d time.Duration) int {
	v := uint64((d + unit - 1) / unit) // in units, rounded up
	if v > 0 {
		v-- // a bound belongs to the bucket below it
	}
	if v < parts {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - octave
	return min((shift+1)*parts+int(v>>shift)&(parts-1), buckets-1)
}

// bound returns the longest duration that belongs to a bucket. The last bucket also has all
// longer ones.
func bound(i int) time.Duration {
	if i < parts {
		return time.Duration(i+1) * unit
	}
	shift := i/parts - 1
	return time.Duration((parts+i%parts+1)<<shift) * unit
}
