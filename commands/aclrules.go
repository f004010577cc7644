package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// Why a rule is refused, in Redis's words where it has some. None repeats the rule,
// which may be a password that lacks its >.
var (
	errRule      = errors.New("it is none that is known")
	errSelector  = errors.New("selectors in parentheses are not supported")
	errNoCommand = errors.New("unknown command or category name in ACL")
	errHash      = errors.New("the password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errNoPass    = errors.New("the password to be removed does not exist")
	errAllKeys   = errors.New("a pattern after ~* or allkeys has no effect: use resetkeys first")
)

// newUser reads a user's rules. Without any he may do nothing.
func newUser(t *table, name string, rules []string) (*User, error) {
	u := &User{Name: name}
	for i, rule := range rules {
		if err := u.apply(t, rule); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	u.settle(t)
	return u, nil
}

// settle works out what the rules come to.
func (u *User) settle(t *table) {
	u.allKeys = slices.Contains(u.keys, keyRule{"*", true, true})
	last := len(u.commands) - 1
	u.free = u.allKeys && last >= 0 && u.commands[last] == commandRule{true, allCommands}
	u.allowed = make(map[string]bool)
	for name, r := range t.byName {
		u.allowed[name] = u.mayRun(name, r.inCategory)
	}
}

// apply takes one rule.
func (u *User) apply(t *table, rule string) error {
	switch strings.ToLower(rule) {
	case "on":
		u.on = true
	case "off":
		u.on = false
	case "nopass":
		u.noPass, u.passwords = true, nil
	case "resetpass":
		u.noPass, u.passwords = false, nil
	case "allkeys":
		u.keys = []keyRule{{"*", true, true}}
	case "resetkeys":
		u.keys = nil
	case "allcommands":
		u.commands = []commandRule{{true, allCommands}}
	case "nocommands":
		u.commands = nil
	case "reset":
		*u = User{Name: u.Name}
	case "allchannels", "resetchannels", "clearselectors", "sanitize-payload", "skip-sanitize-payload":
		// About what rlproxy does not have: channels carry nothing, and so on.
	default:
		return u.applyMarked(t, rule)
	}
	return nil
}

// applyMarked takes a rule that is told by its first character.
func (u *User) applyMarked(t *table, rule string) error {
	if rule == "" {
		return errRule
	}
	rest := rule[1:]
	switch rule[0] {
	case '>':
		u.addPassword(sha256.Sum256([]byte(rest)))
	case '<':
		return u.removePassword(sha256.Sum256([]byte(rest)))
	case '#', '!':
		hash, ok := parseHash(rest)
		switch {
		case !ok:
			return errHash
		case rule[0] == '!':
			return u.removePassword(hash)
		}
		u.addPassword(hash)
	case '~', '%':
		return u.addKeys(rule)
	case '+', '-':
		return u.addCommand(t, rule[0] == '+', strings.ToLower(rest))
	case '&':
	case '(':
		return errSelector
	default:
		return errRule
	}
	return nil
}

func (u *User) addPassword(hash [sha256.Size]byte) {
	u.noPass = false
	if !slices.Contains(u.passwords, hash) {
		u.passwords = append(u.passwords, hash)
	}
}

func (u *User) removePassword(hash [sha256.Size]byte) error {
	i := slices.Index(u.passwords, hash)
	if i < 0 {
		return errNoPass
	}
	u.passwords = slices.Delete(u.passwords, i, i+1)
	return nil
}

func parseHash(word string) (hash [sha256.Size]byte, ok bool) {
	if len(word) != hex.EncodedLen(len(hash)) || word != strings.ToLower(word) {
		return hash, false
	}
	_, err := hex.Decode(hash[:], []byte(word))
	return hash, err == nil
}

// addKeys takes ~pattern or %RW~pattern.
func (u *User) addKeys(rule string) error {
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
	case slices.Contains(u.keys, keyRule{"*", true, true}):
		return errAllKeys
	case k == keyRule{"*", true, true}:
		u.keys = nil
	}
	u.keys = append(u.keys, k)
	return nil
}

// addCommand takes a command or category. Nodes have commands of their own, so a
// name that is not in the table is an error only where nobody else can know it.
func (u *User) addCommand(t *table, allow bool, name string) error {
	category, isCategory := strings.CutPrefix(name, "@")
	container, _, isSub := strings.Cut(name, "|")
	ours := strings.HasPrefix(name, "rl.") || isSub && t.byName[container] != nil
	switch {
	case name == allCommands:
		u.commands = nil // what was said before no longer counts
	case isCategory && !slices.Contains(categories, category),
		!isCategory && t.byName[name] == nil && (ours || !printable([]byte(name)) || name == ""):
		return errNoCommand
	}
	u.commands = append(u.commands, commandRule{allow, name})
	return nil
}
