package commands

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
)

// selector is rules that stand alone: a command needs one selector that allows it and
// all of its keys, and what one lacks no other makes up for.
type selector struct {
	commands []commandRule
	keys     []keyRule

	// What follows from the rules, for speed.

	free    bool            // allows everything
	allKeys bool            // allows every key
	allowed map[string]bool // the commands of the table that it allows
}

// settle works out what the rules come to.
func (s *selector) settle(t *table) {
	s.allKeys = slices.Contains(s.keys, everyKey)
	last := len(s.commands) - 1
	s.free = s.allKeys && last >= 0 && s.commands[last] == everyCommand
	s.allowed = make(map[string]bool)
	for name, r := range t.byName {
		s.allowed[name] = s.mayRun(name, r.inCategory)
	}
}

// mayUse tells whether the selector allows every key of a command of the table.
func (s *selector) mayUse(r *row, args [][]byte) bool {
	write := r.has("write")
	read := write || r.has("readonly") // WATCH does neither
	last := r.keys.last
	if last < 0 {
		last += len(args)
	}
	for i := r.keys.first; 0 < i && i <= last; i += r.keys.step {
		if !s.mayKey(args[i], read, write) {
			return false
		}
	}
	return true
}

// mayEach tells whether the selector allows every use of a key.
func (s *selector) mayEach(uses []engine.KeyUse) bool {
	for i := range uses {
		if !s.mayKey(uses[i].Key, uses[i].Read, uses[i].Write) {
			return false
		}
	}
	return true
}

// mayKey tells whether the selector allows reading or writing a key. One rule has to
// allow both if both are asked for, as in Redis.
func (s *selector) mayKey(key []byte, read, write bool) bool {
	for i := range s.keys {
		k := &s.keys[i]
		if (k.read || !read) && (k.write || !write) && matchCase(k.pattern, key) {
			return true
		}
	}
	return s.allKeys
}

// mayRun tells whether the selector allows a command. The last rule that speaks of it
// decides.
func (s *selector) mayRun(name string, in func(category string) bool) bool {
	for _, r := range slices.Backward(s.commands) {
		if r.speaksOf(name, in) {
			return r.allow
		}
	}
	return false
}

// String is the rules as a configuration has them. Channels carry nothing, so that all
// of them are open whatever was said.
func (s *selector) String() string {
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
