package engine

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// item is one request that waits for its node, and where its answer goes.
type item struct {
	req  *Request
	res  *Result
	wait *waiter
	at   time.Duration // when it was handed in, by the engine's own clock

	unsure bool // the node may have run it, and did not say

	part int   // of a split key: the one asked; 0: the home
	run  *run  // in place of a request: a script of a split key
	node *node // that answered last, for whoever reads on

	// In a cluster:
	stray  bool  // the node that should have its key has not: it is to say who has
	asking bool  // another node said ASK: this one answers it by exception
	hops   uint8 // how often it was sent on
}

// question is all that decides besides the key. Entries that share one are sent it
// once, and adjacent requests with equal key and question become one entry.
type question struct {
	op      Op
	strict  bool
	n       int
	cost    int64
	buckets int64
	windows [MaxWindows]Window
	rate    Throttle
	part    bool // at a part of a split key
}

func (r *Request) question() question {
	return question{r.Op, r.Strict, r.N, r.Cost, r.Buckets, r.Windows, r.Throttle, false}
}

// repeats tells whether r asks the same of the same key as s.
func (r *Request) repeats(s *Request) bool {
	return string(r.Key) == string(s.Key) && r.Op == s.Op && r.Strict == s.Strict && r.N == s.N && r.Cost == s.Cost &&
		r.Buckets == s.Buckets && r.Windows == s.Windows && r.Throttle == s.Throttle
}

func (it *item) question() question {
	q := it.req.question()
	q.part = it.part > 0
	return q
}

// verdictBytes is the size of a verdict in the reply, see lua/batch.lua.
const verdictBytes = 24

// verdicts is how many verdicts answer the question.
func (q *question) verdicts() int {
	if q.op == OpThrottle {
		return 1
	}
	return q.n
}

// maxEntries is the most decisions of one script call: enough to make the call's
// own cost small, few enough to hold the node up for less than a ms.
const maxEntries = 64

// asked is one entry of a call: one key with one question, asked by one or more
// adjacent requests, the items that are linked from first to last.
type asked struct {
	keyFrom, keyTo int // in call.keys
	question       int
	first, last    int // indices of items
	n              int64
}

// call is one EVALSHA of the script that decides: up to maxEntries entries. A node
// uses one call after another, and again for the next batch.
type call struct {
	keys      []byte // stored keys, one after the other
	entries   []asked
	questions []question
	index     [2 * maxEntries]int16 // open addressing over hashes of keys: entry+1 that came last for a key
	packed    []byte                // entries, then questions
	ends      []int                 // of the entries, and of each question
	args      []any
	names     []string
	stray     bool // of items about one key that are
	asking    bool // of items about one key that are
}

func (c *call) reset() {
	c.keys, c.entries, c.questions = c.keys[:0], c.entries[:0], c.questions[:0]
	c.index = [2 * maxEntries]int16{}
	c.stray, c.asking = false, false
}

// add puts item i into the call. next links the items of one entry: next[i]
// is the item after i. It returns false if the call is full.
func (c *call) add(it *item, i int, next []int) bool {
	r, from := it.req, len(c.keys)
	c.keys = shard.AppendStoredKey(c.keys, r.Key, it.part)
	key := c.keys[from:]
	slot := int(xxhash.Sum64(key) % uint64(len(c.index)))
	for ; c.index[slot] != 0; slot = (slot + 1) % len(c.index) {
		e := &c.entries[c.index[slot]-1]
		if string(c.keys[e.keyFrom:e.keyTo]) != string(key) {
			continue
		}
		// Only the key's last entry may take one more: order within a key holds.
		if combines(r) && c.questions[e.question] == it.question() {
			c.keys = c.keys[:from]
			next[e.last], e.last = i, i
			e.n++
			return true
		}
		break
	}
	if len(c.entries) == maxEntries {
		c.keys = c.keys[:from]
		return false
	}
	c.entries = append(c.entries, asked{from, len(c.keys), c.ask(it.question()), i, i, 1})
	c.index[slot] = int16(len(c.entries)) // #nosec G115 -- at most maxEntries
	return true
}

// combines tells whether equal requests may share an entry.
func combines(r *Request) bool { return r.Op != OpReset }

// ask returns the index of a question, which mostly is the last one asked.
func (c *call) ask(q question) int {
	for i := len(c.questions) - 1; i >= 0; i-- {
		if c.questions[i] == q {
			return i
		}
	}
	c.questions = append(c.questions, q)
	return len(c.questions) - 1
}

// build returns the arguments of the call. They hold until reset. The node of a
// cluster is told which keys are meant as the script's other arguments, and then lets a
// script have keys of many slots: it refuses, key by key, those that it has not. Of one
// key it is told as such, and says who has it.
func (c *call) build(clock string, slots bool) []any {
	keys := string(c.keys)
	c.names, c.args, c.packed = c.names[:0], c.args[:0], c.packed[:0]
	for i := range c.entries {
		e := &c.entries[i]
		c.names = append(c.names, keys[e.keyFrom:e.keyTo])
		c.packed = binary.BigEndian.AppendUint16(c.packed, uint16(e.question+3)) // #nosec G115 -- index in ARGV
		c.packed = binary.BigEndian.AppendUint32(c.packed, uint32(min(e.n, 1<<32-1)))
	}
	if len(c.questions) == 1 && c.single() {
		c.packed = c.packed[:0] // which says the same
	}
	c.ends = append(c.ends[:0], len(c.packed))
	for i := range c.questions {
		c.packed = c.questions[i].append(c.packed)
		c.ends = append(c.ends, len(c.packed))
	}
	packed := string(c.packed)
	apart := slots && len(c.entries) > 1
	declared := len(c.entries)
	if apart {
		declared = 0
	}
	c.args = append(c.args, "evalsha", lua.Decide.SHA, declared)
	if !apart {
		c.appendNames()
	}
	c.args = append(c.args, clock, packed[:c.ends[0]])
	for i := range c.questions {
		c.args = append(c.args, packed[c.ends[i]:c.ends[i+1]])
	}
	if apart {
		c.appendNames()
	}
	return c.args
}

// single tells whether each entry is of one request.
func (c *call) single() bool {
	for i := range c.entries {
		if c.entries[i].n > 1 {
			return false
		}
	}
	return true
}

func (c *call) appendNames() {
	for i := range c.names {
		c.args = append(c.args, &c.names[i])
	}
}

// append packs a question as lua/ask.lua reads it.
func (q *question) append(b []byte) []byte {
	b = appendUint(b, q.cost, 6)
	b = append(b, bit(q.strict, 1)|bit(q.part, 2), byte(q.op))
	b = appendUint(b, q.buckets, 2)
	if q.op == OpThrottle {
		interval := q.rate.interval()
		b = appendUint(b, interval, 8)
		b = appendUint(b, interval*q.rate.limit(), 8)
		b = appendUint(b, interval*q.cost, 8)
	}
	for _, w := range q.windows[:q.n] {
		b = appendUint(b, w.Length, 5)
		b = appendUint(b, w.Limit, 5)
	}
	return b
}

// appendUint appends the low n bytes of v, big-endian.
func appendUint(b []byte, v int64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i))) // #nosec G115 -- the byte is what is wanted
	}
	return b
}

// reader takes integers off the front of a reply.
type reader struct {
	s  string
	ok bool // false after reading past the end
}

func (r *reader) uint(n int) int64 {
	if len(r.s) < n {
		r.ok, r.s = false, ""
		return 0
	}
	var v int64
	for i := range n {
		v = v<<8 | int64(r.s[i])
	}
	r.s = r.s[n:]
	return v
}

func (r *reader) text(n int64) string {
	if int64(len(r.s)) < n {
		r.ok, r.s = false, ""
		return ""
	}
	t := r.s[:n]
	r.s = r.s[n:]
	return t
}
