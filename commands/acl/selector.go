package acl

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/internal/glob"
)

// Selector is an independent set of rules: a command needs one selector that allows both
// the command and all of its keys.
type Selector struct {
	commands []commandRule // in order; the last one that applies decides
	keys     []keyRule     // in order; any of them may allow a use of a key

	free    bool            // the rules allow everything; set by compile
	allKeys bool            // the rules allow reading and writing every key; set by compile
	allowed map[string]bool // for each known command, whether the rules allow it; set by compile
}

// compile computes the effect of the rules.
func (s *Selector) compile(commands Commands) {
	s.allKeys = slices.Contains(s.keys, everyKey)
	last := len(s.commands) - 1
	s.free = s.allKeys && last >= 0 && s.commands[last] == everyCommand
	s.allowed = make(map[string]bool)
	for name, in := range commands {
		s.allowed[name] = s.MayRun(name, in)
	}
}

// MayKey reports whether the selector allows the given use of a key. If the key is both read
// and written, one rule must allow both, as in Redis.
func (s *Selector) MayKey(key []byte, read, write bool) bool {
	for i := range s.keys {
		k := &s.keys[i]
		if (k.read || !read) && (k.write || !write) && glob.Match(k.pattern, key) {
			return true
		}
	}
	return false
}

// Allows reports whether the selector allows a known command. It returns false for unknown ones.
func (s *Selector) Allows(name string) bool { return s.allowed[name] }

// AllKeys reports whether the selector allows reading and writing every key.
func (s *Selector) AllKeys() bool { return s.allKeys }

// ReadsAllKeys reports whether the selector allows reading every key.
func (s *Selector) ReadsAllKeys() bool {
	return slices.ContainsFunc(s.keys, func(k keyRule) bool { return k.read && k.pattern == everyKey.pattern })
}

// MayRun reports whether the selector allows a command, which need not be known. in reports
// whether the command is in a category. The last rule that applies to the command decides.
func (s *Selector) MayRun(name string, in func(category string) bool) bool {
	for _, r := range slices.Backward(s.commands) {
		if r.appliesTo(name, in) {
			return r.allow
		}
	}
	return false
}

// String returns the rules as in a configuration. It shows all channels as allowed, because
// rlproxy has no channels to protect.
func (s *Selector) String() string {
	var words []string
	for _, k := range s.keys {
		words = append(words, k.String())
	}
	words = append(words, "&*")
	if len(s.commands) == 0 || s.commands[0].name != allCommands {
		words = append(words, "-"+allCommands)
	}
	for _, r := range s.commands {
		sign := "-"
		if r.allow {
			sign = "+"
		}
		words = append(words, sign+r.name)
	}
	return strings.Join(words, " ")
}
