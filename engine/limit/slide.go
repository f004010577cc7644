package limit

import (
	"sort"
	"unsafe"
)

// The exact log of RL.SLIDE: one entry for each ms that admitted something, with
// the running total after it. An entry counts while now <= its ms + the window, so
// the use is the difference of two running totals. A decision needs one search for
// the oldest entry that counts, whatever the cost and however long the log.

// logEntry is everything that a log admitted at one ms.
type logEntry struct {
	t     int64 // the ms, rounded up to the grid; never less than the entry's before
	total int64 // of the log, this entry included; it may wrap, only differences count
}

// slideLog is a ring of entries in order of time. Entries that no longer count stay
// in it until the next charge: before that, the clock may step back to when they
// counted.
type slideLog struct {
	ring  []logEntry
	head  int32       // where the oldest entry stands
	size  int32       // entries in the ring
	base  int64       // the total before the oldest entry
	small [3]logEntry // the first ring, so that a short log is one allocation
}

// Slide is the kind of RL.SLIDE.
const Slide Kind = 1

func init() {
	register(Slide, algorithm{
		name: "RL.SLIDE", additive: true, windows: true, peek: 1,
		fresh: slideFresh, usage: slideUsage, charge: slideCharge, room: slideRoom, until: slideUntil,
		empty: slideEmpty,
	})
}

const (
	logBytes   = int64(unsafe.Sizeof(slideLog{}))
	entryBytes = int64(unsafe.Sizeof(logEntry{}))
)

func slideFresh(s *State) {
	s.log = new(slideLog)
	s.log.ring = s.log.small[:]
}

func slideUsage(s *State, now int64, _ *Spec) (used int64, edge int) {
	l := s.log
	edge = l.edge(now, s.window)
	return l.before(int(l.size)) - l.before(edge), edge
}

func slideRoom(s *State, _, most int64, _ *Spec, edge int) int64 {
	l := s.log
	all := l.before(int(l.size))
	i := edge + sort.Search(int(l.size)-edge, func(i int) bool { return all-l.at(edge+i).total <= most })
	return l.at(i).t + s.window + 1
}

func slideCharge(s *State, now int64, _ *Spec, w Window, units int64, edge int) {
	l := s.log
	t := l.dated(now, w)
	if length := l.wanted(t, edge); length != len(l.ring) {
		l.resize(edge, length)
	} else {
		l.base = l.before(edge)
		l.head = int32((int(l.head) + edge) % len(l.ring))
		l.size -= int32(edge)
	}
	total := l.before(int(l.size)) + units
	if l.size == 0 || l.newest() != t {
		l.size++
	}
	*l.at(int(l.size) - 1) = logEntry{t, total}
}

func slideUntil(s *State) int64 { return s.log.newest() + s.window }

// slideEmpty counts from the newest entry's time, as rounded to the grid: an
// entry counts until its time plus the window, inclusive.
func slideEmpty(s *State, _ int64, _ *Spec) int64 { return s.log.newest() + s.window + 1 }

// Redate corrects the answer to a hold at clock that a multi-key request charges at once. As of a hold, RL.SLIDE has
// answered that the window is empty at its deadline, unless other units are there for longer.
func (s *Spec) Redate(d *Decision, clock, deadline int64) {
	if s.Kind != Slide {
		return
	}
	if d.ResetAfter <= deadline-clock {
		d.ResetAfter = 0
	}
	w := s.Windows[d.Window]
	d.ResetAfter = max(d.ResetAfter, w.Dated(clock)+w.Length+1-clock)
}

// gridLimit is the largest limit whose log keeps the ms of every admission. Above
// it times are rounded up to a grid of as many steps per window, which bounds the
// log's length.
const gridLimit = 65536

// gridUp rounds t up to the grid of a log with this limit and window.
func gridUp(t, limit, w int64) int64 {
	if limit <= gridLimit {
		return t
	}
	g := (w + gridLimit - 1) / gridLimit
	return (t + g - 1) / g * g
}

// Dated returns the ms with which RL.SLIDE dates a charge at t under the limit of w: t itself, or t
// rounded up to a grid that bounds the log. A newer entry dates it even later.
func (w Window) Dated(t int64) int64 { return gridUp(t, w.Limit, w.Length) }

// newest returns the time of the newest entry, 0 if the log is empty.
func (l *slideLog) newest() int64 {
	if l.size == 0 {
		return 0
	}
	return l.at(int(l.size) - 1).t
}

// dated returns the time with which an admission at now is dated: on the grid, and
// never before the newest entry.
func (l *slideLog) dated(now int64, w Window) int64 {
	return max(gridUp(now, w.Limit, w.Length), l.newest())
}

// at returns the i-th entry from the oldest.
func (l *slideLog) at(i int) *logEntry {
	i += int(l.head)
	if i >= len(l.ring) {
		i -= len(l.ring)
	}
	return &l.ring[i]
}

// before returns the total before the i-th entry.
func (l *slideLog) before(i int) int64 {
	if i == 0 {
		return l.base
	}
	return l.at(i - 1).total
}

// edge returns the first entry that counts at now: its time plus w is not past. Since each
// charge drops those that do not count, it is near the oldest; the search starts there and
// takes doubling steps.
func (l *slideLog) edge(now, w int64) int {
	dead, step := 0, 1 // entries before dead do not count
	for dead+step <= int(l.size) && l.at(dead+step-1).t+w < now {
		dead += step
		step *= 2
	}
	return dead + sort.Search(min(step, int(l.size)-dead), func(i int) bool { return l.at(dead+i).t+w >= now })
}

// wanted returns the ring's length after a charge dated t, which drops the
// entries before edge. The ring grows by a quarter, so that little of it is unused,
// and shrinks when three quarters are unused.
func (l *slideLog) wanted(t int64, edge int) int {
	entries, have := int(l.size)-edge, len(l.ring)
	if entries == 0 || l.newest() != t {
		entries++
	}
	if entries > have || have > 16 && entries < have/4 {
		return entries + entries/4 + 3
	}
	return have
}

// growth returns by how many bytes a charge at now changes the log.
func (l *slideLog) growth(now int64, w Window, edge int) int64 {
	length := l.wanted(l.dated(now, w), edge)
	if length == len(l.ring) {
		return 0
	}
	return int64(length)*entryBytes - l.bytes()
}

// bytes returns the bytes that the ring takes in addition to the log itself.
func (l *slideLog) bytes() int64 {
	if len(l.ring) == len(l.small) {
		return 0
	}
	return int64(len(l.ring)) * entryBytes
}

// resize moves the entries from first on to a ring of the given length.
func (l *slideLog) resize(first, length int) {
	ring := make([]logEntry, length)
	for i := first; i < int(l.size); i++ {
		ring[i-first] = *l.at(i)
	}
	l.base = l.before(first)
	l.ring, l.head, l.size = ring, 0, l.size-int32(first)
}
