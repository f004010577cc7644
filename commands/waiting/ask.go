package waiting

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// question asks the engine for the first of a line, or for the units of the first few at once.
type question struct {
	room    *Room
	line    *line
	waiters []*Waiter // in their order; guarded by Room.mu
	pipe    engine.Pipeline
}

// round asks for all whose time has come, and returns how long it is until the next.
func (r *Room) round() time.Duration {
	var questions []*question
	unlock := r.locked()
	now := time.Now()
	for len(r.due) > 0 && !r.due[0].at.After(now) {
		l := r.due[0]
		if l.asked == nil && !l.due.After(now) {
			questions = append(questions, r.question(l))
		}
		r.settle(l, now)
	}
	wait := time.Hour // plan ends the wait earlier
	if len(r.due) > 0 {
		wait = max(time.Until(r.due[0].at), 0)
	}
	unlock()
	for _, q := range questions {
		r.start(q)
	}
	if r.starter != nil && len(questions) > 0 {
		r.starter.Flush()
	}
	return wait
}

// question returns the next question for a line. mu is held.
func (r *Room) question(l *line) *question {
	q := &question{room: r, line: l, waiters: l.group()}
	l.asked = q
	for _, w := range q.waiters {
		w.asked = true
	}
	of := q.pipe.Add()
	*of = q.waiters[0].Request
	if of.Hold == nil && of.Cost > 0 {
		of.Cost *= int64(len(q.waiters))
		of.Confirm = q.wanted
	}
	return q
}

// start sends a question. answered is called with the answer.
func (r *Room) start(q *question) {
	r.asked.Add(1)
	r.running.Add(1)
	answered := func() {
		defer r.running.Done()
		q.answered()
	}
	if r.starter != nil {
		r.starter.Start(&q.pipe, answered)
		return
	}
	r.engine.Do(&q.pipe)
	answered()
}

// wanted returns the units of those who are still there, see engine.Request.Confirm. Who goes away later is charged.
func (q *question) wanted() int64 {
	defer q.room.locked()()
	now, still := time.Now(), q.waiters[:0]
	for _, w := range q.waiters {
		switch {
		case w.line == nil:
		case w.Gone():
			q.room.remove(w, now) // its client will find that it has left
		default:
			still = append(still, w)
		}
	}
	clear(q.waiters[len(still):])
	if q.waiters = still; len(still) == 0 {
		return 0
	}
	return int64(len(still)) * still[0].Request.Cost
}

// answered passes on the answer.
func (q *question) answered() {
	res, r, l := &q.pipe.Results[0], q.room, q.line
	defer r.locked()()
	now := time.Now()
	l.asked = nil
	for _, w := range q.waiters {
		w.asked = false
	}
	switch {
	case res.Err != nil || res.Fail != engine.FailDefault:
		l.due = now
		q.answerAll(res, 0)
	case res.Allowed:
		l.due = now
		q.admitted(res, now)
	case len(q.waiters) == 1 && len(l.waiters) > 0 && l.waiters[0] == q.waiters[0]:
		l.deny(res, now)
	default: // there was not room for all of them, or another is the first now
		l.due, l.room = now, 0
	}
	if l.again {
		l.again, l.due = false, now
	}
	r.settle(l, now)
}

// admitted answers those who were admitted. Room.mu is held.
func (q *question) admitted(res *engine.Result, now time.Time) {
	w := q.waiters[0]
	first := &w.Request
	if first.Kind == limit.Concurrency && !res.Again && first.Cost > 0 && (w.line == nil || w.Gone()) {
		if w.line != nil {
			q.room.remove(w, now)
		}
		q.room.running.Go(func() { q.room.release(first) }) // until it is answered
		return
	}
	q.line.of, q.line.room = first.Spec, res.Remaining
	q.answerAll(res, first.Cost)
}

// answerAll answers the waiters, each of which left so many units less to those behind it. Room.mu is held.
func (q *question) answerAll(res *engine.Result, cost int64) {
	for i, w := range q.waiters {
		if w.line == nil {
			continue // it has left
		}
		q.line.take(w)
		w.answer = *res
		w.answer.Remaining += int64(len(q.waiters)-1-i) * cost
		q.room.all.Add(-1)
		q.room.done = append(q.room.done, w)
	}
}

// release releases a lease whose client has gone away.
func (r *Room) release(of *engine.Request) {
	var p engine.Pipeline
	s := p.Add()
	s.Op, s.Kind, s.Key, s.ID, s.Hold = engine.OpSettle, of.Kind, of.Key, of.ID, of.Hold
	r.engine.Do(&p) // if it is not answered, the lease ends by its TTL
}
