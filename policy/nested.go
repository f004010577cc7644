package policy

import (
	"slices"
	"sort"
)

// A nested set has the patterns of a policy that match several keys each: prefixes, or networks. Two of them have no
// key in common, or one is in the other.
//
// They are sorted. Of all patterns, the last one that does not sort after a key has the most in common with it. So the
// longest pattern that the key matches is this one or one that it is in.
type nested[P pattern[P]] []member[P]

type member[P any] struct {
	pattern  P
	override int32 // index of the override in Policy.Overrides
	shorter  int32 // index of the longest other pattern that this one is in; -1: none
}

// pattern is what keys begin with, in bytes or bits. A whole key is one, too.
type pattern[P any] interface {
	compare(P) int // sorts
	length() int
	common(P) int // how much both begin with; it may be more than the length of a network
}

// add appends a pattern.
func (x *nested[P]) add(p P, override int32) {
	*x = append(*x, member[P]{pattern: p, override: override})
}

// sort completes what add has appended.
func (x nested[P]) sort() {
	slices.SortFunc(x, func(a, b member[P]) int { return a.pattern.compare(b.pattern) })
	for i := range x {
		x[i].shorter = x[:i].find(x[i].pattern)
	}
}

// find returns the index of the longest pattern that a key matches, or -1.
func (x nested[P]) find(key P) int32 {
	i := int32(sort.Search(len(x), func(i int) bool { // #nosec G115 -- at most MaxOverrides
		return x[i].pattern.compare(key) > 0
	})) - 1
	if i < 0 {
		return -1
	}
	common := x[i].pattern.common(key)
	for i >= 0 && x[i].pattern.length() > common {
		i = x[i].shorter
	}
	return i
}
