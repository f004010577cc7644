// Package denials remembers what nodes denied. Until a denial's retry-after has
// passed, counted from when the node was asked, the node would deny the same request
// again: use does not shrink before, unless the key is reset. So the request is
// answered here, and a denied client costs its node only a few calls per second,
// however often it retries.
//
// Held units may be released at any time, so callers do not pass denials of keys with
// holds. A request with an id may have been admitted before, so the node always
// answers it.
package denials

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Cache remembers denials, at most maxDenials of them and maxKeyBytes of their keys:
// one more takes another's place. The zero Cache is empty and ready for use by many goroutines. Times are ms
// of one clock of this process that does not step back.
type Cache struct {
	kept    atomic.Int64
	resets  atomic.Uint64
	answers atomic.Int64
	stripes [stripes]stripe
}

const (
	stripes     = 64
	maxDenials  = 16384   // some 300 bytes each, and the key
	maxKeyBytes = 4 << 20 // of keys

	// maxAge is the longest time, in ms, that a denial is remembered: the message that
	// another proxy has reset the key may be lost.
	maxAge = 1000
)

type stripe struct {
	mu       sync.Mutex
	denied   map[uint64]*denial // by hash of the key, guarded by mu; equal hashes replace each other
	keyBytes int                // of the keys in denied, guarded by mu
}

// denial is one request that was denied, and the answer.
type denial struct {
	key      string
	spec     limit.Spec
	sent     int64 // when the node was asked
	until    int64 // when it is to be asked again
	decision limit.Decision
}

// contradicts reports whether the answer to r, which is about the same key, may contradict the denial.
func (d *denial) contradicts(r *engine.Request) bool {
	return d.spec != r.Spec && d.spec.SharesState(&r.Spec)
}

func (m *Cache) stripe(key []byte) (*stripe, uint64) {
	h := xxhash.Sum64(key)
	return &m.stripes[h%stripes], h
}

// Kept returns how many denials are in memory. One that has expired stays until its key is asked about, or
// another takes its place.
func (m *Cache) Kept() int64 { return m.kept.Load() }

// Answers returns how many requests were answered from memory.
func (m *Cache) Answers() int64 { return m.answers.Load() }

// Resets returns a number that grows with each reset. Remember takes the number
// that was read before the node was asked.
func (m *Cache) Resets() uint64 { return m.resets.Load() }

// Repeat counts one more answer, of a request equal to one that was just answered
// from memory.
func (m *Cache) Repeat() { m.answers.Add(1) }

// Answer fills in the decision if r is known to be denied now. Otherwise r will be sent to a node, and Answer forgets
// a denial that r may make wrong, or show to be wrong: what the node says of the key then holds for the requests that
// follow, too.
func (m *Cache) Answer(r *engine.Request, now int64, res *engine.Result) bool {
	inspects := r.Op == engine.OpInspect
	if m.kept.Load() == 0 || r.Op != engine.OpDecide && !inspects {
		return false
	}
	s, h := m.stripe(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.denied[h]
	if known == nil || known.key != string(r.Key) {
		return false
	}
	if now >= known.until || now < known.sent || inspects || known.contradicts(r) {
		s.remove(m, h, known)
		return false
	}
	if known.spec != r.Spec || r.Hold != nil {
		return false
	}
	res.Decision, res.Remembered = known.decision, true
	res.RetryAfter = max(res.RetryAfter-(now-known.sent), 1)
	res.ResetAfter = max(res.ResetAfter-(now-known.sent), 1)
	m.answers.Add(1)
	return true
}

// Outdate forgets a denial that r, which a node will answer together with requests for other keys, may
// make wrong, or show to be wrong.
func (m *Cache) Outdate(r *engine.Request) {
	if m.kept.Load() == 0 {
		return
	}
	s, h := m.stripe(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.denied[h]; known != nil && known.key == string(r.Key) && known.contradicts(r) {
		s.remove(m, h, known)
	}
}

// Remember keeps a node's denial of r, which was sent to the node at sent, unless
// there was a reset since Resets returned seen.
func (m *Cache) Remember(r *engine.Request, decision limit.Decision, sent int64, seen uint64) {
	if r.Cost == 0 || r.Hold != nil || decision.RetryAfter <= 1 || m.resets.Load() != seen {
		return
	}
	s, h := m.stripe(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.resets.Load() != seen {
		return // Forget has been here, or is waiting for the lock
	}
	known := s.denied[h]
	if known != nil && known.key != string(r.Key) {
		s.remove(m, h, known)
		known = nil
	}
	if known == nil {
		known = s.add(m, h, r.Key)
	}
	known.spec, known.decision, known.sent = r.Spec, decision, sent
	// The node counted from the beginning of a ms of its own clock, which may be up to a ms before sent.
	known.until = sent + min(decision.RetryAfter-1, maxAge)
}

// add adds an empty denial for the key; in a full stripe it takes the place of others. The stripe's lock is held.
func (s *stripe) add(m *Cache, h uint64, key []byte) *denial {
	if s.denied == nil {
		s.denied = make(map[uint64]*denial)
	}
	for other, old := range s.denied { // any
		if len(s.denied) < maxDenials/stripes && s.keyBytes+len(key) <= maxKeyBytes/stripes {
			break
		}
		s.remove(m, other, old)
	}
	d := &denial{key: string(key)}
	s.denied[h] = d
	s.keyBytes += len(key)
	m.kept.Add(1)
	return d
}

// remove drops a denial. The stripe's lock is held.
func (s *stripe) remove(m *Cache, h uint64, old *denial) {
	delete(s.denied, h)
	s.keyBytes -= len(old.key)
	m.kept.Add(-1)
}

// Forget drops the denial of a key that was, or is about to be, reset.
func (m *Cache) Forget(key []byte) {
	m.resets.Add(1)
	s, h := m.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.denied[h]; known != nil {
		s.remove(m, h, known)
	}
}

// ForgetAll drops everything: messages about resets may have been lost.
func (m *Cache) ForgetAll() {
	m.resets.Add(1)
	for i := range m.stripes {
		s := &m.stripes[i]
		s.mu.Lock()
		m.kept.Add(-int64(len(s.denied)))
		clear(s.denied)
		s.keyBytes = 0
		s.mu.Unlock()
	}
}
