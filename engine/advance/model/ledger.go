package model

import (
	"math"
	"sort"
)

// Algorithm is an algorithm.
type Algorithm uint8

// The algorithms.
const (
	Log Algorithm = iota
	Counter
	Fixed
	Bucket
	Calendar
)

// Measure is one window of one algorithm.
type Measure struct {
	Algorithm Algorithm
	Parameter int64 // the sub-windows of a counter, the refill of a bucket, the ms at which a calendar window begins
	Window    int64 // ms
}

// Dated returns the Measure of a ms: that of the calendar window that has it, and otherwise the same one. In the model,
// calendar windows begin at multiples of their length.
func (m Measure) Dated(ms int64) Measure {
	if m.Algorithm == Calendar {
		m.Parameter = ms - ms%m.Window
	}
	return m
}

// left returns for how many ms from a clock on units of it may be advanced.
func (m Measure) left(clock int64) int64 {
	switch {
	case m.Algorithm != Calendar:
		return math.MaxInt64
	case clock < m.Parameter:
		return 0
	}
	return m.Parameter + m.Window - clock
}

// Ledger has the charges of one state. Charges come in any order, but Used is asked in the order of time.
type Ledger interface {
	Charge(at, units int64)
	Used(now int64, strict bool) int64
}

// NewLedger returns a ledger without charges.
func NewLedger(s Measure) Ledger {
	switch s.Algorithm {
	case Log:
		return &logLedger{window: s.Window}
	case Bucket:
		return &bucketLedger{refill: s.Parameter, window: s.Window}
	case Fixed:
		return &counterLedger{window: s.Window, n: 1, fixed: true}
	case Calendar:
		return &calendarLedger{measure: s}
	}
	return &counterLedger{window: s.Window, n: s.Parameter}
}

// logLedger counts a unit charged at t while now <= t + window.
type logLedger struct {
	window int64
	at     []int64 // in order
	units  []int64
	sum    int64
	now    int64 // of the newest question
}

func (l *logLedger) Charge(at, units int64) {
	if at+l.window < l.now {
		return
	}
	l.sum += units
	i := len(l.at)
	for i > 0 && l.at[i-1] > at {
		i--
	}
	if i > 0 && l.at[i-1] == at {
		l.units[i-1] += units
		return
	}
	l.at, l.units = append(l.at, 0), append(l.units, 0)
	copy(l.at[i+1:], l.at[i:])
	copy(l.units[i+1:], l.units[i:])
	l.at[i], l.units[i] = at, units
}

func (l *logLedger) Used(now int64, _ bool) int64 {
	l.now = max(l.now, now)
	gone := sort.Search(len(l.at), func(i int) bool { return l.at[i]+l.window >= now })
	for _, units := range l.units[:gone] {
		l.sum -= units
	}
	l.at, l.units = l.at[gone:], l.units[gone:]
	return l.sum
}

// counterLedger counts by sub-windows of window/n ms: the last n in full, and the one before by the share of it that
// the window still covers. A fixed window has one, and counts no other.
type counterLedger struct {
	window, n int64
	fixed     bool
	oldest    int64   // the oldest sub-window that counted at the newest question
	first     int64   // the oldest sub-window in counts
	counts    []int64 // by sub-window
}

func (l *counterLedger) Charge(at, units int64) {
	k := at * l.n / l.window
	if k < l.oldest {
		return
	}
	if len(l.counts) == 0 {
		l.first = k
	}
	if k < l.first {
		l.counts, l.first = append(make([]int64, l.first-k), l.counts...), k
	}
	for int64(len(l.counts)) <= k-l.first {
		l.counts = append(l.counts, 0)
	}
	l.counts[k-l.first] += units
}

func (l *counterLedger) Used(now int64, strict bool) int64 {
	k := now * l.n / l.window
	oldest := k - l.n
	if l.fixed {
		oldest = k
	}
	l.oldest = max(l.oldest, oldest)
	if gone := l.oldest - l.first; gone > 0 {
		l.counts = l.counts[min(gone, int64(len(l.counts))):]
		l.first = l.oldest
	}
	var sum int64
	for i, units := range l.counts {
		if at := l.first + int64(i); at == k-l.n && !l.fixed && !strict {
			passed := now*l.n - k*l.window // n-ths of a ms since sub-window k began, of the window that each has
			sum += units * (l.window - passed) / l.window
		} else {
			sum += units
		}
	}
	return sum
}

// bucketLedger is a token bucket: units leave at refill a window. full is the ms at which none is left, times refill.
type bucketLedger struct{ refill, window, full int64 }

// Charge may take a charge before the newest one as later than it was, which is never less than what then counts.
func (l *bucketLedger) Charge(at, units int64) { l.full = max(l.full, at*l.refill) + units*l.window }

func (l *bucketLedger) Used(now int64, _ bool) int64 {
	return (max(l.full-now*l.refill, 0) + l.window - 1) / l.window
}

// calendarLedger is one calendar window, which counts what is charged in it until it ends.
type calendarLedger struct {
	measure Measure
	units   int64
}

func (l *calendarLedger) Charge(at, units int64) {
	if l.measure.left(at) > 0 {
		l.units += units
	}
}

func (l *calendarLedger) Used(now int64, _ bool) int64 {
	if l.measure.left(now) > 0 {
		return l.units
	}
	return 0
}
