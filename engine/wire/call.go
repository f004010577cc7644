package wire

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// MaxEntries is the most entries of one call: enough to make the call's own cost
// small, few enough to hold the node up for less than a ms.
const MaxEntries = 64

// Call is one call of the function that decides: up to MaxEntries entries, each one
// key with one spec, asked by one or more equal requests. A Call is used again and
// again. The zero Call is empty.
type Call struct {
	keys    []byte // stored keys, one after the other
	entries []entry
	specs   []spec
	index   [2 * MaxEntries]int16 // open addressing over hashes of keys: 1 + the latest entry of a key
	packed  []byte                // entries, then specs
	ends    []int                 // of the packed entries, and of each packed spec
	names   []string
	args    []any
	usages  usages
	answers []Answer
}

// entry is one key with one spec.
type entry struct {
	keyFrom, keyTo int // in keys
	spec           int
	requests       int64
}

// keepKeys is the most bytes of keys for which a Call keeps memory. It is enough for
// MaxEntries keys of some hundred bytes.
const keepKeys = 32 << 10

// Reset empties the call.
func (c *Call) Reset() {
	if cap(c.keys) > keepKeys {
		c.keys = nil
	}
	c.keys, c.entries, c.specs = c.keys[:0], c.entries[:0], c.specs[:0]
	c.index = [2 * MaxEntries]int16{}
}

// Len returns the number of entries.
func (c *Call) Len() int { return len(c.entries) }

// Add puts a request into the call, to be decided at a shard of its key; 0 is the
// home. It returns the request's entry. A request equal to the latest one about its
// key shares that one's entry, and comes after it. ok is false if the call is full.
func (c *Call) Add(r *engine.Request, shardNumber int) (at int, ok bool) {
	from := len(c.keys)
	c.keys = shard.AppendStoredKey(c.keys, r.Key, shardNumber)
	key := c.keys[from:]
	wanted := spec{r.Spec, r.Op == engine.OpReset, shardNumber > 0} // a reset has no windows
	slot := int(xxhash.Sum64(key) % uint64(len(c.index)))
	for ; c.index[slot] != 0; slot = (slot + 1) % len(c.index) {
		at = int(c.index[slot] - 1)
		e := &c.entries[at]
		if string(c.keys[e.keyFrom:e.keyTo]) != string(key) {
			continue
		}
		// Only the latest entry may take one more: the order within a key holds.
		if !wanted.reset && c.specs[e.spec] == wanted {
			c.keys = c.keys[:from]
			e.requests++
			return at, true
		}
		break
	}
	if len(c.entries) == MaxEntries {
		c.keys = c.keys[:from]
		return 0, false
	}
	of := len(c.specs) - 1 // mostly it is the spec of the entry before
	for of >= 0 && c.specs[of] != wanted {
		of--
	}
	if of < 0 {
		of = len(c.specs)
		c.specs = append(c.specs, wanted)
	}
	c.entries = append(c.entries, entry{from, len(c.keys), of, 1})
	c.index[slot] = int16(len(c.entries)) // #nosec G115 -- at most MaxEntries
	return len(c.entries) - 1, true
}

// About reports whether the call's first entry is about a shard of this key.
func (c *Call) About(key []byte, shardNumber int) bool {
	var buf [256]byte
	e := &c.entries[0]
	return string(c.keys[e.keyFrom:e.keyTo]) == string(shard.AppendStoredKey(buf[:0], key, shardNumber))
}

// Args returns the words of the call. They hold until the next Reset. clock is the
// node's clock in tests, in ms, and empty otherwise.
//
// A node of a cluster must not be told the keys of several slots as keys. With apart
// they are the function's last arguments instead: the node then refuses, key by key,
// those that it does not have. With scripted the node refuses functions, and the
// library runs there as a script, which takes the name of the function that it stands
// in for as its first argument after the keys.
func (c *Call) Args(clock string, apart, scripted bool) []any {
	keys := string(c.keys)
	c.names, c.args, c.packed = c.names[:0], c.args[:0], c.packed[:0]
	alone := true // each entry is of one request
	for i := range c.entries {
		e := &c.entries[i]
		c.names = append(c.names, keys[e.keyFrom:e.keyTo])
		c.packed = binary.BigEndian.AppendUint16(c.packed, uint16(e.spec+3)) // #nosec G115 -- index in ARGV
		c.packed = binary.BigEndian.AppendUint32(c.packed, uint32(min(e.requests, 1<<32-1)))
		alone = alone && e.requests == 1
	}
	if alone && len(c.specs) == 1 {
		c.packed = c.packed[:0] // no entries say the same
	}
	c.ends = append(c.ends[:0], len(c.packed))
	for i := range c.specs {
		c.packed = c.specs[i].append(c.packed)
		c.ends = append(c.ends, len(c.packed))
	}
	packed := string(c.packed)
	declared, last := c.names, []string(nil)
	if apart && len(c.entries) > 1 {
		declared, last = nil, c.names
	}
	// Pointers to texts cost no allocation.
	if scripted {
		c.args = append(c.args, "evalsha", &lua.Script.SHA, len(declared))
	} else {
		c.args = append(c.args, "fcall", &lua.Decide.Name, len(declared))
	}
	for i := range declared {
		c.args = append(c.args, &declared[i])
	}
	if scripted {
		c.args = append(c.args, lua.Decide.Short())
	}
	c.args = append(c.args, clock, packed[:c.ends[0]])
	for i := range c.specs {
		c.args = append(c.args, packed[c.ends[i]:c.ends[i+1]])
	}
	for i := range last {
		c.args = append(c.args, &last[i])
	}
	return c.args
}

// kindReset stands in place of an algorithm's kind in the spec of an entry that
// resets its key.
const kindReset = 5

// Flags of a spec.
const (
	flagStrict  = 1 // the oldest sub-window counts in full
	flagAtShard = 2 // the key is a shard of a split key, not its home
	flagRate    = 4 // a rate follows, not windows
)

// spec is what an entry asks of its key. Entries with equal specs send them once.
type spec struct {
	limit.Spec // for a reset, without windows
	reset      bool
	atShard    bool
}

// append packs a spec: cost 6 bytes, flags 1, kind 1, buckets 2, then for each
// window its length 5 and limit 5, or for a rate its interval 8 and limit 8.
func (s *spec) append(b []byte) []byte {
	kind := byte(s.Kind)
	if s.reset {
		kind = kindReset
	}
	b = appendUint(b, s.Cost, 6)
	flags := byte(0)
	if s.Strict {
		flags |= flagStrict
	}
	if s.atShard {
		flags |= flagAtShard
	}
	if s.Interval > 0 {
		flags |= flagRate
	}
	b = append(b, flags, kind)
	b = appendUint(b, s.Buckets, 2)
	if s.Interval > 0 {
		b = appendUint(b, s.Interval, 8)
		return appendUint(b, s.Windows[0].Limit, 8)
	}
	for _, w := range s.Windows[:s.N] {
		b = appendUint(b, w.Length, 5)
		b = appendUint(b, w.Limit, 5)
	}
	return b
}

// KeysArgs returns the words of the call of a function about stored keys. Apart and scripted are as Call.Args
// has them.
func KeysArgs(f *lua.Function, stored []string, clock string, args [][]byte, apart, scripted bool) []any {
	declared, last := stored, []string(nil)
	if apart {
		declared, last = nil, stored
	}
	words := []any{"fcall", f.Name, len(declared)}
	if scripted {
		words = []any{"evalsha", lua.Script.SHA, len(declared)}
	}
	for _, key := range declared {
		words = append(words, key)
	}
	if scripted {
		words = append(words, f.Short())
	}
	words = append(words, clock)
	for _, a := range args {
		words = append(words, string(a))
	}
	for _, key := range last {
		words = append(words, key)
	}
	return words
}
