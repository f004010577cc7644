package engine

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// denials remembers what nodes denied. Until a denial's retry-after has passed,
// counted from when the question was sent, its node can only deny the same question
// again: use does not shrink before, and what could make room sooner is a reset. So
// the question is answered here, and a denied tenant costs its node a few calls a
// second however hard it knocks.
//
// Memory is bounded: at most maxDenials are kept; one more takes another's place.
type denials struct {
	kept    atomic.Int64  // how many there are
	resets  atomic.Uint64 // counts forget: a denial asked for before one is not remembered
	answers atomic.Int64  // requests answered from here
	stripes [denialStripes]denialStripe
}

const (
	denialStripes = 64
	maxDenials    = 16384 // some 300 bytes each, and the key
	// maxRemembered is how long a denial is remembered at most: another proxy's reset
	// may not have told us.
	maxRemembered = 1000 // ms
)

type denialStripe struct {
	mu     sync.Mutex
	denied map[uint64]*denial // by hash of key; equal hashes replace each other
}

// denial is one question that was denied, and the answer.
type denial struct {
	key      string
	question question
	sent     int64 // ms of this process's clock when it was asked
	until    int64 // ms of it from which on it is asked again
	decision Decision
}

func (d *denials) stripe(key []byte) (*denialStripe, uint64) {
	h := xxhash.Sum64(key)
	return &d.stripes[h%denialStripes], h
}

// answer fills in the decision if r is known to be denied at now, in ms.
func (d *denials) answer(r *Request, now int64, res *Result) bool {
	if d.kept.Load() == 0 || r.Cost == 0 {
		return false
	}
	s, h := d.stripe(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.denied[h]
	if known == nil || known.key != string(r.Key) || known.question != r.question() {
		return false
	}
	if now >= known.until || now < known.sent {
		delete(s.denied, h)
		d.kept.Add(-1)
		return false
	}
	res.Decision = known.decision
	res.RetryAfter = max(res.RetryAfter-(now-known.sent), 1)
	res.ResetAfter = max(res.ResetAfter-(now-known.sent), 1)
	d.answers.Add(1)
	return true
}

// remember keeps a node's denial of r, asked at sent, unless there was a reset since
// the count of resets was seen.
func (d *denials) remember(r *Request, decision Decision, sent int64, seen uint64) {
	if r.Cost == 0 || d.resets.Load() != seen {
		return
	}
	s, h := d.stripe(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.resets.Load() != seen {
		return // forget has been here, or is waiting for the lock
	}
	known := s.denied[h]
	if known == nil {
		if s.denied == nil {
			s.denied = make(map[uint64]*denial)
		}
		if len(s.denied) >= maxDenials/denialStripes {
			for other := range s.denied {
				delete(s.denied, other)
				d.kept.Add(-1)
				break
			}
		}
		known = new(denial)
		s.denied[h] = known
		d.kept.Add(1)
	}
	if known.key != string(r.Key) {
		known.key = string(r.Key)
	}
	known.question, known.decision, known.sent = r.question(), decision, sent
	known.until = sent + min(decision.RetryAfter, maxRemembered)
}

// forget drops what is known of a key that was, or is about to be, reset.
func (d *denials) forget(key []byte) {
	d.resets.Add(1)
	s, h := d.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied[h] != nil {
		delete(s.denied, h)
		d.kept.Add(-1)
	}
}

// forgetAll drops everything: resets may have been missed.
func (d *denials) forgetAll() {
	d.resets.Add(1)
	for i := range d.stripes {
		s := &d.stripes[i]
		s.mu.Lock()
		d.kept.Add(-int64(len(s.denied)))
		clear(s.denied)
		s.mu.Unlock()
	}
}
