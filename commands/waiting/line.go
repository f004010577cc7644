package waiting

import (
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/due"
)

// line is those who wait for one key. Its methods do no I/O and read no clock.
type line struct {
	lineName
	due.Place // in Room.due

	waiters []*Waiter // in the order in which they came
	asked   *question // under way; nil: none is
	due     time.Time // when the first is to be asked
	again   bool      // something was freed during the question under way

	denied   engine.Result // the last denial
	of       limit.Spec    // whose it was
	deniedAt time.Time

	// room is how many units were left when a request with the spec of was admitted; 0: unknown.
	room int64

	at time.Time // when something is to be done
}

// Before reports whether something is to be done earlier than in another line.
func (l *line) Before(other *line) bool { return l.at.Before(other.at) }

// InVain reports whether a denial says that a request that came at some time cannot be admitted within its time. It is
// not known when somebody releases slots.
func InVain(r *engine.Request, denied *engine.Result, came time.Time) bool {
	due := time.Now().Add(time.Duration(denied.RetryAfter) * time.Millisecond)
	return r.Kind != limit.Concurrency && due.After(came.Add(time.Duration(r.Block)*time.Millisecond))
}

// add adds a request where it belongs by its arrival. It reports whether that is the first place.
func (l *line) add(w *Waiter) (first bool) {
	i := len(l.waiters)
	for i > 0 && l.waiters[i-1].Came.After(w.Came) {
		i--
	}
	l.waiters = slices.Insert(l.waiters, i, w)
	w.line = l
	return i == 0
}

// remove removes a request that was not admitted. Another first one may have room at once.
func (l *line) remove(w *Waiter, now time.Time) {
	if l.take(w) == 0 {
		l.due = now
	}
}

// take removes a request, and returns what place it had.
func (l *line) take(w *Waiter) (place int) {
	place = slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, place, place+1)
	w.line = nil
	return place
}

// deny notes that the first request was denied. It is asked again when there may be room.
func (l *line) deny(res *engine.Result, now time.Time) {
	l.denied, l.deniedAt, l.of, l.room = *res, now, l.waiters[0].Request.Spec, 0
	l.due = now.Add(time.Duration(max(res.RetryAfter, 1)) * time.Millisecond)
}

// freed notes that there may be room now.
func (l *line) freed(now time.Time) { l.due, l.again = now, l.asked != nil }

// denial returns the answer to a request that is not admitted. If it was not asked itself, it is told when the first
// of the line will be.
func (l *line) denial(w *Waiter, now time.Time) engine.Result {
	res, since := l.denied, now.Sub(l.deniedAt).Milliseconds()
	res.RetryAfter, res.ResetAfter = max(res.RetryAfter-since, 1), max(res.ResetAfter-since, 1)
	if of := &w.Request.Spec; of.N != l.of.N || of.Windows != l.of.Windows {
		res.Limit, res.Remaining = of.Windows[0].Limit, 0
	}
	return res
}

// late reports whether a request can no longer be admitted in time. It is not known when somebody releases slots, so
// those who wait for slots do so to the end.
func (l *line) late(i int, now time.Time) bool {
	w := l.waiters[i]
	until := w.until()
	switch waits := l.asked == nil && l.due.After(until); {
	case w.asked || i == 0 && l.asked == nil && !waits: // it is asked first
		return false
	case waits && !l.slots:
		return true
	}
	return !until.After(now)
}

// giveUp answers those who can no longer be admitted in time, and returns them.
func (l *line) giveUp(now time.Time) (done []*Waiter) {
	kept := l.waiters[:0]
	changed := false // the first is another one
	for i, w := range l.waiters {
		if !l.late(i, now) {
			kept = append(kept, w)
			continue
		}
		w.answer, w.line = l.denial(w, now), nil
		done = append(done, w)
		changed = changed || i == 0
	}
	if changed && len(kept) > 0 && kept[0].Request.Spec != l.of {
		l.due = now // it may have room before the one that was first
	}
	clear(l.waiters[len(kept):])
	l.waiters = kept
	return done
}

// next returns when something is to be done: the first is to be asked, or a wait ends. It returns the zero time if the
// question under way is about all.
func (l *line) next() (at time.Time) {
	for _, w := range l.waiters {
		if until := w.until(); !w.asked && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	if l.asked == nil && (at.IsZero() || l.due.Before(at)) {
		at = l.due
	}
	return at
}

// group returns the first requests that are to be asked together: equal ones that there is room for. They share the
// question of the first.
func (l *line) group() []*Waiter {
	first := &l.waiters[0].Request
	n, most := 1, int64(1)
	if first.Spec == l.of && first.Cost > 0 {
		most = max(l.room/first.Cost, 1)
	}
	for n < len(l.waiters) && int64(n) < most {
		if r := &l.waiters[n].Request; !r.Repeats(first) || r.Fail != first.Fail || r.Shards != first.Shards {
			break
		}
		n++
	}
	return slices.Clone(l.waiters[:n])
}
