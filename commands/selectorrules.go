package commands

import (
	"slices"
	"strings"
)

// commandRule is +command, -command, +@category or -@category.
type commandRule struct {
	allow bool
	name  string // a command, command|subcommand or @category, in lower case
}

// allCommands is the category of every command.
const allCommands = "@all"

// everyCommand is the rule that allows all of them.
var everyCommand = commandRule{true, allCommands}

// speaksOf tells whether the rule is about a command: by its name, by that of the
// command it is a subcommand of, or by a category.
func (r *commandRule) speaksOf(name string, in func(category string) bool) bool {
	if r.name[0] == '@' {
		return r.name == allCommands || in(r.name)
	}
	rest, ok := strings.CutPrefix(name, r.name)
	return ok && (rest == "" || rest[0] == '|')
}

// keyRule is ~pattern, %R~pattern or %W~pattern.
type keyRule struct {
	pattern     string
	read, write bool
}

// everyKey is the rule that allows all uses of all keys.
var everyKey = keyRule{"*", true, true}

func (k keyRule) String() string {
	switch {
	case !k.write:
		return "%R~" + k.pattern
	case !k.read:
		return "%W~" + k.pattern
	}
	return "~" + k.pattern
}

// categories are Redis's, in its order, and one of our own.
var categories = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
	"ratelimit",
}

// apply takes one rule.
func (s *selector) apply(t *table, rule string) error {
	switch strings.ToLower(rule) {
	case "allkeys":
		s.keys = []keyRule{everyKey}
	case "resetkeys":
		s.keys = nil
	case "allcommands":
		s.commands = []commandRule{everyCommand}
	case "nocommands":
		s.commands = nil
	case "allchannels", "resetchannels":
		// Channels carry nothing here.
	default:
		return s.applyMarked(t, rule)
	}
	return nil
}

// applyMarked takes a rule that is told by its first character.
func (s *selector) applyMarked(t *table, rule string) error {
	if rule == "" {
		return errRule
	}
	switch rule[0] {
	case '~', '%':
		return s.addKeys(rule)
	case '+', '-':
		return s.addCommand(t, rule[0] == '+', strings.ToLower(rule[1:]))
	case '&':
		return nil
	}
	return errRule
}

// addKeys takes ~pattern or %RW~pattern.
func (s *selector) addKeys(rule string) error {
	marks, pattern, ok := strings.Cut(rule, "~")
	k := keyRule{pattern: pattern, read: marks == "", write: marks == ""}
	if marks != "" {
		for _, m := range strings.ToUpper(marks[1:]) {
			k.read = k.read || m == 'R'
			k.write = k.write || m == 'W'
			ok = ok && (m == 'R' || m == 'W')
		}
	}
	switch {
	case !ok || !k.read && !k.write:
		return errRule
	case slices.Contains(s.keys, everyKey):
		return errAllKeys
	case k == everyKey:
		s.keys = nil
	}
	s.keys = append(s.keys, k)
	return nil
}

// addCommand takes a command or category. Nodes have commands of their own, so a
// name that is not in the table is an error only where nobody else can know it.
func (s *selector) addCommand(t *table, allow bool, name string) error {
	category, isCategory := strings.CutPrefix(name, "@")
	container, _, isSub := strings.Cut(name, "|")
	ours := strings.HasPrefix(name, "rl.") || isSub && t.byName[container] != nil
	switch {
	case name == allCommands:
		s.commands = nil // what was said before no longer counts
	case isCategory && !slices.Contains(categories, category),
		!isCategory && t.byName[name] == nil && (ours || !printable([]byte(name)) || name == "" || strings.ContainsAny(name, "()")):
		return errNoCommand
	}
	s.commands = append(s.commands, commandRule{allow, name})
	return nil
}
