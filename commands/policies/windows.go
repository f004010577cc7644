package policies

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// newWindows returns the windows of p, in ms, that begin to count at 0 when p replaces old, which is nil if p is new.
// There is a count for each algorithm, window and BUCKETS of a key, and shadows have counts of their own.
func newWindows(old, p *policy.Policy) []int64 {
	if old != nil && old.Kind == p.Kind && old.Param == p.Param && old.Shadow == p.Shadow {
		return without(p.Limits, old.Limits)
	}
	all := slices.Clone(p.Limits)
	for i := range p.Overrides {
		all = append(all, p.Overrides[i].Limits...)
	}
	return without(all, nil)
}

// without returns the lengths in ms of the windows of all that are not in old, without duplicates.
func without(all, old []limit.Window) (lengths []int64) {
	for _, w := range all {
		same := func(o limit.Window) bool { return o.Length == w.Length }
		if !slices.ContainsFunc(old, same) && !slices.Contains(lengths, w.Length) {
			lengths = append(lengths, w.Length)
		}
	}
	return lengths
}

// limitsOf returns the limits of the keys that match a pattern, except for keys with a more specific override.
func limitsOf(p *policy.Policy, pattern string) []limit.Window {
	if o := p.OverrideOf(pattern); o != nil {
		return o.Limits
	}
	return p.Limits
}
