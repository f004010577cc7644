// Package episodes logs trouble that lasts: a line when it begins, one each minute while it goes on, with how often it
// has happened, and a notice when it ends, with how long it took.
//
// Nothing runs by itself. A line is due when somebody calls a method: Note when there is trouble, End when something
// has succeeded, and Tick in a round that there is anyway. So the end of an episode is logged at the first success
// after it, or in such a round.
package episodes

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Every is the time between two lines about an episode.
const Every = time.Minute

// Trouble is what is common to the episodes of one kind of trouble.
type Trouble struct {
	Began string // the message when an episode begins; "": there is none
	Still string // the message while it lasts; "": Began
	Ended string // the message of the notice when it has ended; "": there is none
	// Calm is how long after the last trouble a success ends an episode. Trouble that comes and goes, such as the
	// refusal of some requests among others, is one episode.
	Calm time.Duration
}

// Episode logs one kind of trouble of one thing. It is safe for concurrent use.
type Episode struct {
	kind  Trouble
	log   *slog.Logger
	now   func() time.Time
	about []any // the attributes of all lines

	Open atomic.Bool // whether an episode has begun and not ended; written with mu held

	mu     sync.Mutex
	began  time.Time // guarded by mu
	last   time.Time // the last trouble; guarded by mu
	next   time.Time // when the next line is due; guarded by mu
	well   bool      // something has succeeded since the last trouble; guarded by mu
	unsaid bool      // there was trouble since the last line; guarded by mu
	counts []count   // guarded by mu
}

// count is how often something happened in an episode.
type count struct {
	name string
	n    int64
}

// New returns an episode that has not begun. about are attributes of its lines.
func New(log *slog.Logger, now func() time.Time, kind Trouble, about ...any) *Episode {
	if kind.Still == "" {
		kind.Still = kind.Began
	}
	return &Episode{kind: kind, log: log, now: now, about: about}
}

// Note notes trouble, which is counted n times under a name. detail returns further attributes of the line, if one is
// due.
func (e *Episode) Note(name string, n int64, detail func() []any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if e.Open.Load() && e.well && now.Sub(e.last) >= e.kind.Calm {
		e.end(nil)
	}
	e.count(name, n)
	e.last, e.well, e.unsaid = now, false, true
	if !e.Open.Load() {
		e.began, e.next = now, now.Add(Every)
		e.Open.Store(true)
		e.warn(e.kind.Began, detail())
	} else if !now.Before(e.next) {
		e.still(now, detail())
	}
}

// Count counts what is logged elsewhere: with the attributes that Counts and Take return.
func (e *Episode) Count(name string, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count(name, n)
}

// Tick logs, if a line is due, that the episode lasts, unless there was no trouble since the last line.
func (e *Episode) Tick(detail ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.now(); e.Open.Load() && e.unsaid && !now.Before(e.next) {
		e.still(now, detail)
	}
}

// Flush logs that the episode lasts, although no line is due, if there was trouble since the last line: nobody will
// call again.
func (e *Episode) Flush(detail ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Open.Load() && e.unsaid {
		e.still(e.now(), detail)
	}
}

// End ends the episode, if there is one, because something has succeeded. If the last trouble was less than Calm ago,
// the episode ends when End or Note is called later without trouble in between.
func (e *Episode) End(detail ...any) {
	if !e.Open.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.well = true
	if e.Open.Load() && e.now().Sub(e.last) >= e.kind.Calm {
		e.end(detail)
	}
}

// Counts returns what was counted as attributes of a line.
func (e *Episode) Counts() []any {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attributes()
}

// Take returns the same as Counts and ends the episode without a line.
func (e *Episode) Take() []any {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.reset()
	return e.attributes()
}

func (e *Episode) count(name string, n int64) {
	i := slices.IndexFunc(e.counts, func(c count) bool { return c.name == name })
	if i < 0 {
		i, e.counts = len(e.counts), append(e.counts, count{name: name})
	}
	e.counts[i].n += n
}

func (e *Episode) attributes() (out []any) {
	for _, c := range e.counts {
		if c.n > 0 {
			out = append(out, c.name, c.n)
		}
	}
	return out
}

func (e *Episode) still(now time.Time, detail []any) {
	e.next, e.unsaid = now.Add(Every), false
	e.warn(e.kind.Still, slices.Concat([]any{"since", e.began}, detail))
}

func (e *Episode) warn(text string, detail []any) {
	e.unsaid = false
	if text == "" {
		return // the lines about it are logged elsewhere
	}
	e.log.Warn(text, slices.Concat(e.about, detail, e.attributes())...)
}

func (e *Episode) end(detail []any) {
	if e.kind.Ended != "" {
		after := e.last.Sub(e.began).Round(time.Millisecond)
		if e.kind.Calm == 0 { // the trouble has lasted until now
			after = e.now().Sub(e.began).Round(time.Millisecond)
		}
		e.log.Info(e.kind.Ended, slices.Concat(e.about, []any{"after", after}, detail, e.attributes())...)
	}
	e.reset()
}

func (e *Episode) reset() {
	e.Open.Store(false)
	e.counts, e.well, e.unsaid = e.counts[:0], false, false
}
