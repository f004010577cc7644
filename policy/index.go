package policy

import (
	"slices"
	"sort"
	"strings"
)

// index finds the override of a key: that of the key itself, else that of the longest network that the key is in, else
// that of its longest prefix.
//
// The prefixes are sorted. Of all prefixes, the last one that does not sort after the key has
// the most leading bytes in common with it. So the longest prefix of the key is this one or
// one of those that it begins with.
type index struct {
	exact    map[string]int32 // override by key; nil if there is none
	networks networks         // sorted
	prefixes []prefix         // sorted
}

// prefix is a pattern that ends in *.
type prefix struct {
	text     string // without the *
	override int32  // index of the override in Policy.Overrides
	shorter  int32  // index of the longest other prefix that this one begins with; -1: none
}

// newIndex returns the index of overrides that are sorted by pattern.
func newIndex(all []Override) index {
	var x index
	for i := range all {
		number := int32(i) // #nosec G115 -- at most MaxOverrides
		if of, _, is := parseNetwork([]byte(all[i].Pattern)); is {
			x.networks.add(of, number)
			continue
		}
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
	x.networks.sort()
	// Sort again without the stars: with them, a\x01* comes before a*.
	slices.SortFunc(x.prefixes, func(a, b prefix) int { return strings.Compare(a.text, b.text) })
	for i := range x.prefixes {
		shorter := int32(i) - 1 // #nosec G115 -- as above
		for shorter >= 0 && !strings.HasPrefix(x.prefixes[i].text, x.prefixes[shorter].text) {
			shorter = x.prefixes[shorter].shorter
		}
		x.prefixes[i].shorter = shorter
	}
	return x
}

// find returns the index of a key's override in Policy.Overrides, or -1.
func (x *index) find(key []byte) int32 {
	if i, ok := x.exact[string(key)]; ok {
		return i
	}
	if i := x.networks.find(key); i >= 0 {
		return i
	}
	after := sort.Search(len(x.prefixes), func(i int) bool { return x.prefixes[i].text > string(key) })
	if after == 0 {
		return -1
	}
	i := int32(after) - 1 // #nosec G115 -- at most MaxOverrides
	common := commonLength(x.prefixes[i].text, key)
	for i >= 0 && len(x.prefixes[i].text) > common {
		i = x.prefixes[i].shorter
	}
	if i < 0 {
		return -1
	}
	return x.prefixes[i].override
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
