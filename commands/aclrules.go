package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
	u := &User{Name: name, selectors: make([]selector, 1)}
	for i, rule := range rules {
		if err := u.apply(t, rule); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	for i := range u.selectors {
		s := &u.selectors[i]
		s.settle(t)
		u.free = u.free || s.free
	}
	return u, nil
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
	case "reset":
		*u = User{Name: u.Name, selectors: make([]selector, 1)}
	case "clearselectors", "sanitize-payload", "skip-sanitize-payload":
		// About what rlproxy does not have: payloads are not read, and so on.
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
	case '(':
		return errSelector
	default:
		return u.selectors[0].apply(t, rule)
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
