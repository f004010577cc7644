package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors of rules, with Redis's texts where it has them. They do not repeat the rule, which
// may be a password without its >.
var (
	errRule      = errors.New("unknown rule")
	errOutside   = errors.New("a selector can only have rules about commands, keys and channels")
	errQuotes    = errors.New("quotes in a selector are not supported")
	errUnmatched = errors.New("unmatched parenthesis in acl selector")
	errNoCommand = errors.New("unknown command or category name in ACL")
	errHash      = errors.New("the password hash must be exactly 64 characters and contain only lowercase " +
		"hexadecimal characters")
	errNoPass  = errors.New("the password to be removed does not exist")
	errAllKeys = errors.New("a pattern after ~* or allkeys has no effect: use resetkeys first")
)

// newUser parses the rules of a user. A user without rules may do nothing.
func newUser(commands Commands, name string, rules []string) (*User, error) {
	u := &User{Name: name, selectors: make([]Selector, 1)}
	rules, err := joinSelectors(rules)
	if err != nil {
		return nil, err
	}
	for i, rule := range rules {
		if err := u.apply(commands, rule); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	for i := range u.selectors {
		s := &u.selectors[i]
		s.compile(commands)
		u.free = u.free || s.free
	}
	return u, nil
}

// joinSelectors joins the words of each selector into one rule. As in Redis, a selector goes
// from a word that begins with a parenthesis to the next one that ends with one.
func joinSelectors(words []string) ([]string, error) {
	var rules []string
	open := false
	for _, w := range words {
		if open {
			rules[len(rules)-1] += " " + w
		} else {
			rules = append(rules, w)
			open = strings.HasPrefix(w, "(")
		}
		open = open && !strings.HasSuffix(w, ")")
	}
	if open {
		return nil, fmt.Errorf("rule %d: %w", len(rules), errUnmatched)
	}
	return rules, nil
}

func (u *User) apply(commands Commands, rule string) error {
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
		*u = User{Name: u.Name, selectors: make([]Selector, 1)}
	case "clearselectors":
		u.selectors = u.selectors[:1]
	case "sanitize-payload", "skip-sanitize-payload":
		// The nodes check payloads.
	default:
		return u.applyMarked(commands, rule)
	}
	return nil
}

// applyMarked applies a rule that begins with a special character.
func (u *User) applyMarked(commands Commands, rule string) error {
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
		return u.addSelector(commands, rule[1:len(rule)-1])
	default:
		return u.selectors[0].apply(commands, rule)
	}
	return nil
}

// addSelector parses the rules between a pair of parentheses.
func (u *User) addSelector(commands Commands, rules string) error {
	if strings.ContainsAny(rules, `"'`) { // Redis would remove them
		return errQuotes
	}
	var s Selector
	for i, rule := range strings.Fields(rules) {
		err := s.apply(commands, rule)
		if errors.Is(err, errRule) {
			err = errOutside
		}
		if err != nil {
			return fmt.Errorf("rule %d of the selector: %w", i+1, err)
		}
	}
	u.selectors = append(u.selectors, s)
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

// parseHash parses the hexadecimal form of a password's hash.
func parseHash(word string) (hash [sha256.Size]byte, ok bool) {
	if len(word) != hex.EncodedLen(len(hash)) || word != strings.ToLower(word) {
		return hash, false
	}
	_, err := hex.Decode(hash[:], []byte(word))
	return hash, err == nil
}
