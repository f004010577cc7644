package policy

import (
	"slices"
	"strings"
)

// index finds the override of a key: that of the key itself, else that of its longest prefix.
//
// The prefixes are sorted. Of all prefixes, the last one that does not sort after the key has
// the most leading bytes in common with it. So the longest prefix of the key is this one or
// one of those that it begins with. These form a chain, each shorter than the one before. Each
// prefix has a pointer to the next one in its chain and one to another further on, so that a
// few steps find the first one that is short enough. These are the jump pointers of Myers, "An
// applicative random-access stack", 1983.
type index struct {
	exact    map[string]int32 // override by key; nil if there is none
	prefixes []prefix         // sorted
}

// prefix is a pattern that ends in *.
type prefix struct {
	text     string // without the *
	override int32  // index of the override in Policy.Overrides
	shorter  int32  // index of the longest other prefix that this one begins with; -1: none
	jump     int32  // index of a prefix further on in the chain; -1: none
	depth    int32  // number of prefixes in the chain from this one on
}

// newIndex returns the index of overrides that are sorted by pattern.
func newIndex(all []Override) index {
	var x index
	for i := range all {
		number := int32(i) // #nosec G115 -- at most MaxOverrides
		text, ok := strings.CutSuffix(all[i].Pattern, "*")
		if !ok {
			if x.exact == nil {
				x.exact = make(map[string]int32)
			}
			x.exact[text] = number
			continue
		}
		x.prefixes = append(x.prefixes, prefix{text: text, override: number})
	}
	// Sort again without the stars: with them, a\x01* comes before a*.
	slices.SortFunc(x.prefixes, func(a, b prefix) int { return strings.Compare(a.text, b.text) })
	for i := range x.prefixes {
		shorter := int32(i) - 1 // #nosec G115 -- as above
		for shorter >= 0 && !strings.HasPrefix(x.prefixes[i].text, x.prefixes[shorter].text) {
			shorter = x.prefixes[shorter].shorter
		}
		x.link(&x.prefixes[i], shorter)
	}
	return x
}

// link puts p at the beginning of the chain that begins with the prefix shorter; -1: no chain.
func (x *index) link(p *prefix, shorter int32) {
	p.shorter, p.jump, p.depth = shorter, shorter, 1
	if shorter < 0 {
		return
	}
	next := &x.prefixes[shorter]
	p.depth += next.depth
	// If the next two jumps are equally far, this one covers both of them and one step more.
	if far := next.jump; far >= 0 {
		if f := &x.prefixes[far]; next.depth-f.depth == f.depth-x.depthOf(f.jump) {
			p.jump = f.jump
		}
	}
}

// depthOf returns the depth of a prefix; 0 for -1.
func (x *index) depthOf(number int32) int32 {
	if number < 0 {
		return 0
	}
	return x.prefixes[number].depth
}

// find returns the index of a key's override in Policy.Overrides, or -1.
func (x *index) find(key []byte) int32 {
	if i, ok := x.exact[string(key)]; ok {
		return i
	}
	low, high := 0, len(x.prefixes) // the prefixes before low do not sort after the key
	for low < high {
		mid := int(uint(low+high) / 2) // #nosec G115 -- not negative
		if x.prefixes[mid].text <= string(key) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return -1
	}
	i := int32(low) - 1 // #nosec G115 -- at most MaxOverrides
	common := commonLength(x.prefixes[i].text, key)
	for i >= 0 && len(x.prefixes[i].text) > common {
		i = x.next(i, common)
	}
	if i < 0 {
		return -1
	}
	return x.prefixes[i].override
}

// next returns the index of a prefix further on in the chain of prefix i, which must be longer than
// n bytes. It skips only prefixes that are longer than n bytes. It returns -1 at the end of the
// chain.
func (x *index) next(i int32, n int) int32 {
	if jump := x.prefixes[i].jump; jump >= 0 && len(x.prefixes[jump].text) > n {
		return jump
	}
	return x.prefixes[i].shorter
}

// commonLength returns the number of leading bytes that a and b have in common.
func commonLength(a string, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Override returns the override of a key, or nil. The key is that of RL.CHECK, without the
// policy's name.
func (p *Policy) Override(key []byte) *Override {
	if i := p.index.find(key); i >= 0 {
		return &p.Overrides[i]
	}
	return nil
}
