package engine

import (
	"sort"
	"unsafe"
)

// mark is one entry of a log: everything charged at one ms.
type mark struct {
	t     int64 // the ms, rounded up to the grid; never less than the mark's before
	total int64 // of the log, this mark included; may wrap, only differences count
}

// slideLog is the state of RL.SLIDE: a ring of marks in order of time. Marks that
// count no more stay in it until a charge passes: only then can the clock not
// step back to where they counted.
type slideLog struct {
	ring  []mark
	head  int32   // where the oldest mark stands
	size  int32   // marks in the ring
	base  int64   // the total before the oldest mark
	small [3]mark // the first ring, so that a short log is one allocation
}

const (
	logBytes  = int64(unsafe.Sizeof(slideLog{}))
	markBytes = int64(unsafe.Sizeof(mark{}))
)

func newLog() *slideLog {
	l := new(slideLog)
	l.ring = l.small[:]
	return l
}

// at returns the i-th mark from the oldest.
func (l *slideLog) at(i int) *mark {
	i += int(l.head)
	if i >= len(l.ring) {
		i -= len(l.ring)
	}
	return &l.ring[i]
}

// before returns the total before the i-th mark.
func (l *slideLog) before(i int) int64 {
	if i == 0 {
		return l.base
	}
	return l.at(i - 1).total
}

// newest returns the time of the newest mark of a log that has one.
func (l *slideLog) newest() int64 {
	return l.at(int(l.size) - 1).t
}

// live returns the first mark that counts at now: its time plus w is not past. As a
// charge forgets those that do not, it is near the oldest; the search goes out from
// there in doubling steps.
func (l *slideLog) live(now, w int64) int {
	dead, step := 0, 1 // marks before dead do not count
	for dead+step <= int(l.size) && l.at(dead+step-1).t+w < now {
		dead += step
		step *= 2
	}
	return dead + sort.Search(min(step, int(l.size)-dead), func(i int) bool { return l.at(dead+i).t+w >= now })
}

// used returns what counts at now.
func (l *slideLog) used(now, w int64) int64 {
	if l.size == 0 {
		return 0
	}
	return l.before(int(l.size)) - l.before(l.live(now, w))
}

// room returns the first ms at which at most y counts. More than y counts now.
func (l *slideLog) room(w, y int64) int64 {
	all := l.before(int(l.size))
	i := sort.Search(int(l.size), func(i int) bool { return all-l.at(i).total <= y })
	return l.at(i).t + w + 1
}

// stamp returns the time that a charge at now is marked with.
func (l *slideLog) stamp(now int64, w Window) int64 {
	t := gridUp(now, w.Limit, w.Length)
	if l.size > 0 {
		t = max(t, l.newest())
	}
	return t
}

// charge adds cost at now and forgets the marks that count no more.
func (l *slideLog) charge(now int64, w Window, cost int64) {
	t, first := l.stamp(now, w), l.live(now, w.Length)
	if want := l.want(now, w); want != len(l.ring) {
		l.resize(first, want)
	} else {
		l.base = l.before(first)
		l.head = int32((int(l.head) + first) % len(l.ring))
		l.size -= int32(first)
	}
	total := l.before(int(l.size)) + cost
	if l.size == 0 || l.newest() != t {
		l.size++
	}
	*l.at(int(l.size) - 1) = mark{t, total}
}

// want returns the ring's length after a charge at now. It grows by a quarter, so
// that little of it lies idle, and shrinks when three quarters do.
func (l *slideLog) want(now int64, w Window) int {
	marks, have := int(l.size)-l.live(now, w.Length), len(l.ring)
	if marks == 0 || l.newest() != l.stamp(now, w) {
		marks++
	}
	if marks > have || have > 16 && marks < have/4 {
		return marks + marks/4 + 3
	}
	return have
}

// grows returns by how many bytes a charge at now changes the log.
func (l *slideLog) grows(now int64, w Window) int64 {
	want := l.want(now, w)
	if want == len(l.ring) {
		return 0
	}
	return int64(want)*markBytes - l.bytes()
}

// bytes returns what the ring holds beside the log itself.
func (l *slideLog) bytes() int64 {
	if len(l.ring) == len(l.small) {
		return 0
	}
	return int64(len(l.ring)) * markBytes
}

// resize moves the marks from first on to a ring of the given length.
func (l *slideLog) resize(first, length int) {
	ring := make([]mark, length)
	for i := first; i < int(l.size); i++ {
		ring[i-first] = *l.at(i)
	}
	l.base = l.before(first)
	l.ring, l.head, l.size = ring, 0, l.size-int32(first)
}
