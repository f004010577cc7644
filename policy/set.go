package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Bounds of a Set, and of a name.
const (
	MaxPolicies  = 4096
	MaxOverrides = 65_536  // overrides of all policies together
	MaxText      = 8 << 20 // bytes of the text
	MaxName      = 64      // bytes of a policy's name
)

// Set is an immutable collection of policies. The zero Set is empty.
type Set struct {
	byName    map[string]*Policy
	all       []*Policy // sorted by name
	overrides int       // of all policies
	size      int       // bytes of Text
}

// Find returns the policy with this name, or nil.
func (s *Set) Find(name []byte) *Policy { return s.byName[string(name)] }

// All returns the policies, sorted by name. The caller must not modify them.
func (s *Set) All() []*Policy { return s.all }

// Overrides returns the number of overrides of all policies together.
func (s *Set) Overrides() int { return s.overrides }

// newSet returns a set of policies, which must be sealed.
func newSet(all []*Policy) *Set {
	slices.SortFunc(all, func(a, b *Policy) int { return strings.Compare(a.Name, b.Name) })
	s := &Set{byName: make(map[string]*Policy, len(all)), all: all}
	for _, p := range all {
		s.byName[p.Name] = p
		s.overrides += len(p.Overrides)
		s.size += p.size
	}
	return s
}

// seal completes a policy. It must not be modified afterwards.
func (p *Policy) seal() {
	slices.SortFunc(p.Overrides, func(a, b Override) int { return strings.Compare(a.Pattern, b.Pattern) })
	for i := range p.Overrides {
		o := &p.Overrides[i]
		o.Limits = limit.InZoneOf(o.Limits, p.Limits)
		o.Counts = cmp.Or(o.Counts, new(engine.OverrideCounts))
	}
	p.index = newIndex(p.Overrides)
	p.size = len(p.appendText(nil))
}

// with returns s with a policy that is not sealed yet, which replaces the one with its name. msg
// is an error reply if the set exceeds a bound, else "".
func (s *Set) with(p *Policy) (next *Set, msg string) {
	p.seal()
	all := slices.DeleteFunc(slices.Clone(s.all), func(q *Policy) bool { return q.Name == p.Name })
	next = newSet(append(all, p))
	return next, next.tooMuch()
}

// tooMuch returns an error reply if the set exceeds a bound, else "".
func (s *Set) tooMuch() string {
	switch {
	case len(s.all) > MaxPolicies:
		return errPolicies
	case s.overrides > MaxOverrides:
		return errMany
	case s.size > MaxText:
		return errLong
	}
	return ""
}

// WithPolicy returns s with a policy, given by the words of RL.POLICY SET from the name on. If
// there is a policy with that name, it is replaced and its overrides are kept. msg is an error
// reply if the words are wrong, if an override has a window with fewer milliseconds than the new
// buckets, or if the set exceeds a bound; else it is "".
func (s *Set) WithPolicy(words [][]byte) (next *Set, msg string) {
	p, msg := parsePolicy(words)
	if msg != "" {
		return nil, msg
	}
	if old := s.Find(words[0]); old != nil {
		p.Overrides = slices.Clone(old.Overrides)
		for i := range p.Overrides {
			o := &p.Overrides[i]
			if p.Kind != old.Kind {
				o.Param = 0
			}
			if msg := ratelimit.CheckLimits(p.Kind, cmp.Or(o.Param, p.Param), o.Limits); msg != "" {
				return nil, msg + " of the override " + word.Literal([]byte(o.Pattern))
			}
		}
	}
	if next, msg = s.with(p); msg != "" {
		return nil, msg
	}
	return next, ""
}

// WithOverride returns s with an override, given by the words of RL.POLICY OVERRIDE from the
// policy's name on. It replaces an override with the same pattern. msg is an error reply if the
// words are wrong, if there is no such policy, or if the set exceeds a bound; else it is "".
func (s *Set) WithOverride(words [][]byte) (next *Set, msg string) {
	if len(words) == 0 || !isName(words[0]) {
		return nil, wrongName(words)
	}
	old := s.Find(words[0])
	if old == nil {
		return nil, Unknown(words[0])
	}
	o, msg := parseOverride(old, words[1:])
	if msg != "" {
		return nil, msg
	}
	p := old.without(o.Pattern)
	p.Overrides = append(p.Overrides, o)
	if next, msg = s.with(p); msg != "" {
		return nil, msg
	}
	return next, ""
}

// Without returns s without a policy and its overrides. found reports whether there was one.
func (s *Set) Without(name []byte) (next *Set, found bool) {
	if s.Find(name) == nil {
		return s, false
	}
	return newSet(slices.DeleteFunc(slices.Clone(s.all), func(p *Policy) bool { return p.Name == string(name) })), true
}

// WithoutOverride returns s without an override. found reports whether there was one.
func (s *Set) WithoutOverride(name, pattern []byte) (next *Set, found bool) {
	old := s.Find(name)
	if old == nil {
		return s, false
	}
	p := old.without(string(pattern))
	if len(p.Overrides) == len(old.Overrides) {
		return s, false
	}
	next, _ = s.with(p) // a smaller set exceeds no bound
	return next, true
}

// overrideOf returns the override with a pattern, or nil. The policy may be nil.
func (p *Policy) overrideOf(pattern string) *Override {
	if p == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(p.Overrides, pattern, func(o Override, pattern string) int {
		return strings.Compare(o.Pattern, pattern)
	})
	if !found {
		return nil
	}
	return &p.Overrides[i]
}

// without returns a copy of the policy without the override of a pattern. The copy may be modified.
func (p *Policy) without(pattern string) *Policy {
	q := *p
	q.Overrides = slices.DeleteFunc(slices.Clone(p.Overrides), func(o Override) bool { return o.Pattern == pattern })
	return &q
}
