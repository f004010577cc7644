package policy

import (
	"net/netip"
	"strings"
	"unsafe"
)

// index finds the override of a key: that of the key itself, else that of the longest network that the key is in, else
// that of its longest prefix.
type index struct {
	exact    map[string]int32 // override by key; nil if there is none
	networks nested[network]
	prefixes nested[prefix]
}

// prefix is a pattern that ends in *, without the *; or a key.
type prefix string

func (p prefix) compare(o prefix) int { return strings.Compare(string(p), string(o)) }

func (p prefix) length() int { return len(p) }

func (p prefix) common(o prefix) int {
	n := min(len(p), len(o))
	for i := range n {
		if p[i] != o[i] {
			return i
		}
	}
	return n
}

// newIndex returns the index of overrides that are sorted by pattern.
func newIndex(all []Override) index {
	var x index
	for i := range all {
		number := int32(i) // #nosec G115 -- at most MaxOverrides
		if of, _, is := parseNetwork([]byte(all[i].Pattern)); is {
			x.networks.add(networkOf(of), number)
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
		x.prefixes.add(prefix(text), number)
	}
	x.networks.sort()
	x.prefixes.sort() // without the stars: with them, a\x01* comes before a*
	return x
}

// find returns the index of a key's override in Policy.Overrides, or -1.
func (x *index) find(key []byte) int32 {
	if i, ok := x.exact[string(key)]; ok {
		return i
	}
	if len(x.networks) > 0 {
		if a, ok := address(key); ok {
			if i := x.findNetwork(netip.PrefixFrom(a, a.BitLen())); i >= 0 {
				return i
			}
		}
	}
	// The string is valid while key is, and nothing keeps it.
	return x.findPrefix(unsafe.String(unsafe.SliceData(key), len(key))) // #nosec G103 -- so that no lookup allocates
}

// findPrefix returns the override of the longest prefix of a text, or -1.
func (x *index) findPrefix(text string) int32 {
	if i := x.prefixes.find(prefix(text)); i >= 0 {
		return x.prefixes[i].override
	}
	return -1
}

// findPattern returns the override of the keys that match a pattern, except for those with a more specific one, or -1.
func (x *index) findPattern(text string) int32 {
	if of, _, is := parseNetwork([]byte(text)); is {
		return x.findNetwork(of)
	}
	if text, is := strings.CutSuffix(text, "*"); is {
		return x.findPrefix(text)
	}
	return x.find([]byte(text))
}

// Override returns the override of a key, or nil. The key is that of RL.CHECK, without the
// policy's name.
func (p *Policy) Override(key []byte) *Override {
	if i := p.index.find(key); i >= 0 {
		return &p.Overrides[i]
	}
	return nil
}

// OverrideOf returns the override of the keys that match a pattern, except for those with a more specific one; nil if
// they have none.
func (p *Policy) OverrideOf(pattern string) *Override {
	if i := p.index.findPattern(pattern); i >= 0 {
		return &p.Overrides[i]
	}
	return nil
}
