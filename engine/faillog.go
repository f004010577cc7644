package engine

import (
	"sync"
	"time"
)

// LogEvery is the time between two log lines about a problem that lasts.
const LogEvery = time.Minute

// FailLog counts the answers by FAIL policies during one incident, such as a node that
// refuses writes, and decides when to log them: at the first answer, and once a minute
// if there were more. An incident is over after a minute without an answer, or at Take.
// It is safe for concurrent use; the zero value is ready.
type FailLog struct {
	mu     sync.Mutex
	counts [FailPolicies]int64 // guarded by mu: answers during this incident
	since  time.Time           // guarded by mu: the first answer
	last   time.Time           // guarded by mu: the latest answer
	next   time.Time           // guarded by mu: when the next line is due
	logged int64               // guarded by mu: answers that were logged
}

// Count counts an answer and returns the attributes of a line, if one is due. If
// others is true, the lines about this incident are written elsewhere, with what Line or
// Counts returns, and Count returns none.
func (l *FailLog) Count(p FailPolicy, now time.Time, others bool) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !others && now.Sub(l.last) > LogEvery {
		l.reset()
	}
	if l.since.IsZero() {
		l.since = now
	}
	l.last = now
	l.counts[p]++
	if others {
		return nil
	}
	return l.line(now)
}

// Line returns the attributes of a line, if one is due: a minute after the last one, and
// there were answers since.
func (l *FailLog) Line(now time.Time) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line(now)
}

// Counts returns the answers during this incident as attributes of a line.
func (l *FailLog) Counts() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attributes()
}

// Take returns the same as Counts, and ends the incident.
func (l *FailLog) Take() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.reset()
	return l.attributes()
}

func (l *FailLog) reset() {
	l.counts, l.since, l.next, l.logged = [FailPolicies]int64{}, time.Time{}, time.Time{}, 0
}

func (l *FailLog) line(now time.Time) []any {
	answers := int64(0)
	for _, n := range l.counts {
		answers += n
	}
	if answers == l.logged || now.Before(l.next) {
		return nil
	}
	l.next, l.logged = now.Add(LogEvery), answers
	return append([]any{"since", l.since}, l.attributes()...)
}

func (l *FailLog) attributes() (out []any) {
	for fail, n := range l.counts {
		if n > 0 {
			out = append(out, FailPolicy(fail).String(), n)
		}
	}
	return out
}
