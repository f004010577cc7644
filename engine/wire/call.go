package wire

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// MaxEntries is the most entries of one call: enough to make the overhead of the call small,
// and few enough to block the node for less than a ms.
const MaxEntries = 64

// Call is one call of the function decide: up to MaxEntries entries, each of which is one
// key with one spec, for one or more equal requests. A Call is reused. The zero Call is empty.
type Call struct {
	keys    []byte                // stored keys, one after the other
	entries []entry               // entries in the order in which they were added
	specs   []spec                // the different specs of the entries
	index   [2 * MaxEntries]int16 // hash table of keys, open addressing: 1 + the latest entry of a key, or 0
	packed  []byte                // entries, then specs, as they are sent
	ends    []int                 // the end in packed of the entries, and of each spec
	names   []string              // the stored key of each entry
	args    []any                 // the result of Args
	usages  []limit.Usage         // memory for the usages in answers
	answers []Answer              // the result of Decode
}

// entry is one key with one spec.
type entry struct {
	keyFrom, keyTo int   // start and end of the stored key in keys
	spec           int   // index in specs
	requests       int64 // number of equal requests
}

// keepKeys is the most bytes of keys for which a Call keeps memory: MaxEntries keys of 512
// bytes.
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

// Add adds a request to the call, to be decided at a shard of its key; 0 is the home. It
// returns the index of the request's entry. A request equal to the latest one about its key
// shares that one's entry and comes after it. ok is false if the call is full, or if only one
// of the request and the call's entries is a reset: a node that is full runs only resets.
func (c *Call) Add(r *engine.Request, shardNumber int) (at int, ok bool) {
	from := len(c.keys)
	c.keys = shard.AppendStoredKey(c.keys, r.Key, shardNumber)
	key := c.keys[from:]
	wanted := spec{r.Spec, r.Op == engine.OpReset, shardNumber > 0} // a reset has no windows
	if len(c.specs) > 0 && c.specs[0].reset != wanted.reset {
		c.keys = c.keys[:from]
		return 0, false
	}
	slot := int(xxhash.Sum64(key) % uint64(len(c.index)))
	for ; c.index[slot] != 0; slot = (slot + 1) % len(c.index) {
		at = int(c.index[slot] - 1)
		e := &c.entries[at]
		if string(c.keys[e.keyFrom:e.keyTo]) != string(key) {
			continue
		}
		// Only the latest entry of a key may take one more request, to keep the order within the key.
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
	of := len(c.specs) - 1 // start with the latest spec, which most often is the one
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

// Args returns the words of the call. The next Args reuses the slice. clock replaces the
// node's clock in tests, in ms, and is empty otherwise.
//
// In a cluster, a call must not declare keys of several slots. With apart, the keys are the
// function's last arguments instead, and the node refuses each key that it does not have.
// scripted is for a node that refuses functions: there the library runs as a script, whose
// first argument after the keys is the name of the function.
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
		c.packed = c.packed[:0] // the function takes an empty list of entries to mean this
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
	// Pointers to strings are stored in an any without an allocation.
	if scripted {
		c.args = append(c.args, "evalsha", &lua.Script.SHA, len(declared))
	} else {
		f := lua.Decide
		if c.specs[0].reset {
			f = lua.Reset
		}
		c.args = append(c.args, "fcall", &f.Name, len(declared))
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

// kindReset takes the place of an algorithm's kind in the spec of an entry that resets its key.
const kindReset = 5

// Flags of a spec.
const (
	flagStrict  = 1 // the oldest sub-window counts in full
	flagAtShard = 2 // the key is a shard of a split key, not its home
)

// spec is what an entry asks of its key. A call has each different spec once.
type spec struct {
	limit.Spec      // has no windows for a reset
	reset      bool // the entry resets its key
	atShard    bool // the entry is about a shard of a split key, not its home
}

// calendar is added to the length of a calendar window.
const calendar = 1 << 39

// append packs a spec: cost 6, flags 1, kind 1, parameter 5, then for each window its length 5
// and limit 5, and for a calendar window its parameter 5; or for a rate its interval 8 and limit 8.
func (s *spec) append(b []byte) []byte {
	kind := byte(s.Kind)
	if s.reset {
		kind = kindReset
	}
	b = appendUint(b, s.Cost, 6)
	flags := byte(0)
	if s.Manner != 0 && !s.Kind.Rated() {
		flags |= flagStrict
	}
	if s.atShard {
		flags |= flagAtShard
	}
	b = append(b, flags, kind)
	b = appendUint(b, s.Param, 5)
	if s.Kind.Rated() {
		b = appendUint(b, s.Manner, 8)
		return appendUint(b, s.Windows[0].Limit, 8)
	}
	for _, w := range s.Windows[:s.N] {
		parameter, length := w.NodeName(s.Param)
		if parameter == s.Param {
			b = appendUint(b, length, 5)
			b = appendUint(b, w.Limit, 5)
			continue
		}
		b = appendUint(b, calendar+length, 5)
		b = appendUint(b, w.Limit, 5)
		b = appendUint(b, parameter, 5)
	}
	return b
}

// decodeSpec decodes a spec that append has packed: that of the first request with the id of r. It is
// not that of a reset, and has windows instead of a rate.
func decodeSpec(text string, r *engine.Request) (limit.Spec, error) {
	in := reader{s: text}
	s := limit.Spec{Cost: in.uint(6), Manner: in.uint(1) & flagStrict, Kind: limit.Kind(in.uint(1)),
		Param: in.uint(5)} // #nosec G115 -- one byte
	sane := true
	for in.s != "" && !in.bad && s.N < limit.MaxWindows {
		w, fits := in.window(&s)
		s.Windows[s.N], sane = w, sane && fits
		s.N++
	}
	if err := in.end(); err != nil {
		return s, err
	}
	if !sane || s.N == 0 || s.Cost == 0 || s.Param == 0 || !s.Kind.Windowed() && s.Kind != limit.Concurrency ||
		(s.Kind == limit.Concurrency) != (r.Kind == limit.Concurrency) {
		return s, errInconsistent
	}
	for _, w := range s.Limits() {
		if w.Limit == 0 || w.Limit > limit.MaxLimit ||
			(w.Length == 0) != (s.Kind == limit.Concurrency) ||
			!s.ParamFits(w) {
			return s, errInconsistent
		}
	}
	return s, nil
}

// window decodes a window of a spec, and reports whether there are such windows.
func (r *reader) window(s *limit.Spec) (w limit.Window, fits bool) {
	w = limit.Window{Length: r.uint(5), Limit: r.uint(5)}
	parameter := s.Param
	if w.Length > calendar {
		parameter, w.Length = r.uint(5), w.Length-calendar
	}
	_, w.Length, fits = limit.FromNode(s.Kind, parameter, w.Length)
	return w, fits
}

// KeysArgs returns the words of a call of any function about stored keys. clock, apart and
// scripted are those of Call.Args.
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
