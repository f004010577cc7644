// Package waiting lets requests wait until they are admitted (BLOCK).
//
// Requests that wait for a key are a line, in the order in which they came. Only the first is asked again, when the
// denial has said that there is room, or when the engine says that there is room earlier. When it is admitted, so many
// equal ones behind it are asked together as there is room for. So a large request is not overtaken by small ones, and
// no node is asked for each that waits.
//
// A request that waits is charged only if its client is still there when the node has admitted it: see
// engine.Request.Confirm. There is one goroutine for all lines, and none for each that waits.
//
// Reading order: waiting.go (this file), line.go (one line), ask.go (questions to the engine).
package waiting

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/due"
)

// The most requests that wait for one key, and in all.
const (
	maxLine = 1000
	maxAll  = 10_000
)

// Waiter is a request that waits. The exported fields are set by its client before Join.
type Waiter struct {
	Request engine.Request // with memory of its own
	Client  int64          // the ID of the client
	Came    time.Time      // when the request arrived

	// Gone reports whether the client has gone away. Wake is called once, when there is an answer. Both are called on
	// any goroutine, and do not block.
	Gone func() bool
	Wake func()

	// Refused is the error reply in place of an answer; "" if there is an answer. It may be read after Wake.
	Refused string

	line   *line // nil: it has an answer, or has left; guarded by Room.mu, as are the following
	asked  bool  // a question under way is about it
	answer engine.Result
}

// until returns when the client no longer waits.
func (w *Waiter) until() time.Time {
	return w.Came.Add(time.Duration(w.Request.Block) * time.Millisecond)
}

// Room has the lines of all keys. It is safe for concurrent use.
type Room struct {
	engine  engine.Engine
	starter engine.Starter // engine, if it is one
	kick    chan struct{}  // has an element if the goroutine must check again what is due
	stop    chan struct{}  // closed by Close
	running sync.WaitGroup // counts the goroutine, and questions under way

	all   atomic.Int64 // requests that wait
	asked atomic.Int64 // questions to the engine

	mu    sync.Mutex         // not held while the engine is called
	lines map[lineName]*line // guarded by mu, as is all of a line
	due   due.Heap[*line]    // lines by when something is to be done; guarded by mu
	done  []*Waiter          // who has an answer, and is to be woken by whoever unlocks mu; guarded by mu
}

// lineName is what a line waits for: a key's limits, or its slots.
type lineName struct {
	key   string // as engines name it
	slots bool   // of RL.ACQUIRE
}

func nameOf(r *engine.Request) lineName { return lineName{string(r.Key), r.Kind == limit.Concurrency} }

// Open returns a Room of requests to an engine. The engine must not have answered any yet.
func Open(e engine.Engine) *Room {
	r := &Room{engine: e, kick: make(chan struct{}, 1), stop: make(chan struct{}), lines: make(map[lineName]*line)}
	r.starter, _ = e.(engine.Starter)
	if f, ok := e.(engine.Freer); ok {
		f.OnFreed(r.freed)
	}
	r.running.Go(r.run) // until Close
	return r
}

// Close ends the goroutine and waits for questions under way. All clients have left, and the engine is still open.
func (r *Room) Close() {
	close(r.stop)
	r.running.Wait()
}

// Len returns how many requests wait. r may be nil.
func (r *Room) Len() int {
	if r == nil {
		return 0
	}
	return int(r.all.Load())
}

// Stats returns what INFO and metrics show.
func (r *Room) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "waiting_requests", Value: r.all.Load(), Metric: "waiting_requests",
			Help: "Requests that wait to be admitted (BLOCK)."},
		{Name: "waiting_questions", Value: r.asked.Load(), Metric: "waiting_questions_total",
			Help: "Questions to the engine for requests that waited."},
	}
}

// Busy reports whether others wait for what a request asks for, so that it has to join them without being asked.
func (r *Room) Busy(of *engine.Request) bool {
	if r.all.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines[nameOf(of)] != nil
}

// Join has a request wait that was denied, or if denied is nil, that was not asked because others wait. Wake will be
// called, perhaps at once. If too many wait already, Join returns false.
func (r *Room) Join(w *Waiter, denied *engine.Result) bool {
	defer r.locked()()
	now, n := time.Now(), nameOf(&w.Request)
	l := r.lines[n]
	if r.all.Load() >= maxAll || l != nil && len(l.waiters) >= maxLine {
		return false
	}
	if l == nil {
		l = &line{lineName: n, due: now}
		r.lines[n] = l
	}
	if first := l.add(w); first && denied != nil {
		l.deny(denied, now)
	}
	r.all.Add(1)
	r.settle(l, now)
	return true
}

// Leave ends the wait of a request, and returns its answer: a denial if it has none yet.
func (r *Room) Leave(w *Waiter) engine.Result {
	defer r.locked()()
	if w.line != nil {
		r.remove(w, time.Now())
	}
	return w.answer
}

// Unblock ends the wait of a client's request, with an error or, if that is "", with a denial. It reports whether the
// client has one.
func (r *Room) Unblock(client int64, refused string) bool {
	defer r.locked()()
	for _, l := range r.lines {
		for _, w := range l.waiters {
			if w.Client == client {
				w.Refused = refused
				r.remove(w, time.Now())
				r.done = append(r.done, w)
				return true
			}
		}
	}
	return false
}

// remove ends the wait of a request with a denial. mu is held.
func (r *Room) remove(w *Waiter, now time.Time) {
	l := w.line
	w.answer = l.denial(w, now)
	l.remove(w, now)
	r.all.Add(-1)
	r.settle(l, now)
}

// freed is called by the engine when a key has room, or with nil, when any key may have.
func (r *Room) freed(key []byte) {
	if r.all.Load() == 0 {
		return
	}
	defer r.locked()()
	now := time.Now()
	if key == nil {
		for _, l := range r.lines {
			l.freed(now)
			r.plan(l)
		}
		return
	}
	for _, slots := range []bool{false, true} {
		if l := r.lines[lineName{string(key), slots}]; l != nil {
			l.freed(now)
			r.plan(l)
		}
	}
}

// locked locks mu. The function that it returns unlocks it, and then wakes those in done.
func (r *Room) locked() (unlock func()) {
	r.mu.Lock()
	return func() {
		done := r.done
		r.done = nil
		r.mu.Unlock()
		for _, w := range done {
			w.Wake()
		}
	}
}

// settle answers those of a line that can no longer be admitted in time, and plans what comes next. mu is held.
func (r *Room) settle(l *line, now time.Time) {
	late := l.giveUp(now)
	r.all.Add(int64(-len(late)))
	r.done = append(r.done, late...)
	r.plan(l)
}

// plan schedules a line, or drops it if nobody waits. mu is held.
func (r *Room) plan(l *line) {
	if len(l.waiters) == 0 {
		if l.asked == nil { // else its answer comes here, too
			delete(r.lines, l.lineName)
		}
		r.due.Remove(l)
		return
	}
	if l.at = l.next(); l.at.IsZero() {
		r.due.Remove(l) // all are asked
		return
	}
	if r.due.Put(l) { // it is the next
		select {
		case r.kick <- struct{}{}:
		default: // the goroutine will look in any case
		}
	}
}

// run asks for those whose time has come, until Close.
func (r *Room) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(r.round())
		select {
		case <-timer.C:
		case <-r.kick:
		case <-r.stop:
			return
		}
	}
}
