package acl

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

// everyCommand is the rule that allows all commands.
var everyCommand = commandRule{true, allCommands}

// appliesTo reports whether the rule applies to a command: by its name, by the name of the
// command of which it is a subcommand, or by a category.
func (r *commandRule) appliesTo(name string, in func(category string) bool) bool {
	if r.name[0] == '@' {
		return r.name == allCommands || in(r.name)
	}
	rest, ok := strings.CutPrefix(name, r.name)
	return ok && (rest == "" || rest[0] == '|')
}

// keyRule is ~pattern, %R~pattern or %W~pattern.
type keyRule struct {
	pattern string
	read    bool // the rule allows reading
	write   bool // the rule allows writing
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

func (s *Selector) apply(commands Commands, rule string) error {
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
		// rlproxy has no channels to protect.
	default:
		return s.applyMarked(commands, rule)
	}
	return nil
}

// applyMarked applies a rule that begins with a special character.
func (s *Selector) applyMarked(commands Commands, rule string) error {
	if rule == "" {
		return errRule
	}
	switch rule[0] {
	case '~', '%':
		return s.addKeys(rule)
	case '+', '-':
		return s.addCommand(commands, rule[0] == '+', strings.ToLower(rule[1:]))
	case '&':
		return nil
	}
	return errRule
}

// addKeys applies ~pattern or %RW~pattern.
func (s *Selector) addKeys(rule string) error {
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

// addCommand applies a rule about a command or category. Nodes may have commands that are not in
// commands, so an unknown name is an error only if it cannot be the name of a node's command.
func (s *Selector) addCommand(commands Commands, allow bool, name string) error {
	category, isCategory := strings.CutPrefix(name, "@")
	container, _, isSub := strings.Cut(name, "|")
	ours := strings.HasPrefix(name, "rl.") || isSub && commands[container] != nil
	switch {
	case name == allCommands:
		s.commands = nil // earlier rules no longer have an effect
	case isCategory && !slices.Contains(categories, category),
		!isCategory && commands[name] == nil && (ours || !printable(name) || name == "" ||
			strings.ContainsAny(name, "()")):
		return errNoCommand
	}
	s.commands = append(s.commands, commandRule{allow, name})
	return nil
}

// printable reports whether a name can be written in a configuration without quotes.
func printable(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' })
}
