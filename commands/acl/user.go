package acl

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// User is a user and its permissions.
type User struct {
	Name string

	on        bool                // the user may log in
	noPass    bool                // any password is accepted
	passwords [][sha256.Size]byte // hashes of the passwords
	selectors []Selector          // at least one; the first has the rules outside parentheses
	free      bool                // a selector allows everything
}

// Permission is the result of a permission check.
type Permission uint8

// The verdicts.
const (
	Allowed   Permission = iota
	NoCommand            // no selector allows the command
	NoKey                // selectors allow the command, but none of them allows all of its keys
)

// Check looks for a selector that allows a command together with its keys. command and keys
// report whether a selector allows the command and its keys. If no selector allows both,
// Check returns NoKey if one allows the command, as in Redis, else NoCommand.
func (u *User) Check(command, keys func(s *Selector) bool) Permission {
	verdict := NoCommand
	for i := range u.selectors {
		s := &u.selectors[i]
		switch {
		case !command(s):
		case keys(s):
			return Allowed
		default:
			verdict = NoKey
		}
	}
	return verdict
}

// MayRun reports whether the user may run a known command, at least on some keys.
func (u *User) MayRun(command string) bool {
	return slices.ContainsFunc(u.selectors, func(s Selector) bool { return s.Allows(command) })
}

// MayUse reports whether the user may run a known command that reads or writes a key.
func (u *User) MayUse(command string, key []byte, read, write bool) bool {
	return u.Check(
		func(s *Selector) bool { return s.Allows(command) },
		func(s *Selector) bool { return s.MayKey(key, read, write) }) == Allowed
}

// MayReadAll reports whether the user may run a known command that reads any key.
func (u *User) MayReadAll(command string) bool {
	return u.Check(
		func(s *Selector) bool { return s.Allows(command) },
		(*Selector).ReadsAllKeys) == Allowed
}

// Unrestricted reports whether the user may run every command on every key.
func (u *User) Unrestricted() bool { return u.free }

// Selectors returns the user's selectors. The first has the rules outside parentheses. The caller must not modify them.
func (u *User) Selectors() []Selector { return u.selectors }

// SamePasswords reports whether u and o may log in with the same passwords.
func (u *User) SamePasswords(o *User) bool { return slices.Equal(u.passwords, o.passwords) }

// String returns the user as a line of a configuration. It hides even the hashes of passwords,
// because they can be attacked with word lists.
func (u *User) String() string {
	words := []string{"user", u.Name, "off"}
	if u.on {
		words[2] = "on"
	}
	if u.noPass {
		words = append(words, "nopass")
	}
	for range u.passwords {
		words = append(words, "#hidden")
	}
	for i := range u.selectors {
		rules := u.selectors[i].String()
		if i > 0 {
			rules = "(" + rules + ")"
		}
		words = append(words, rules)
	}
	return strings.Join(words, " ")
}
