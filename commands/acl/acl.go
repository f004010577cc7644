// Package acl implements users and their permissions, with the rules of Redis's ACLs.
//
// Users are a list of users, and a User has Selectors. A selector is a set of rules about commands and keys. One
// selector must allow a command together with all of its keys. The effect of the rules on the known commands is
// computed when the rules are parsed, so a check takes one map lookup and allocates nothing.
//
// Reading order: acl.go (this file), user.go, selector.go; userrules.go and selectorrules.go parse rules.
package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
)

// Users is an immutable list of users. When rules change, a new list is made.
type Users struct {
	users map[string]*User // by name
}

// Commands maps each known command and subcommand, such as client|id, in lower case, to a
// function that reports whether it is in a category, such as @read.
type Commands map[string]func(category string) bool

// DefaultUser is the user of a session that has not logged in, or that logs in with AUTH and only a password.
const DefaultUser = "default"

// New parses users, each of which is a name followed by rules. If the default user is not among
// them, New adds one that may do everything, and that needs password unless it is empty.
func New(lines [][]string, password string, commands Commands) (*Users, error) {
	l := &Users{users: make(map[string]*User)}
	for _, line := range lines {
		if len(line) == 0 || line[0] == "" {
			return nil, fmt.Errorf("a user needs a name")
		}
		name := line[0]
		if l.users[name] != nil {
			return nil, fmt.Errorf("the user %q is defined twice", name)
		}
		u, err := newUser(commands, name, line[1:])
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", name, err)
		}
		l.users[name] = u
	}
	switch {
	case l.users[DefaultUser] == nil:
		rules := []string{"on", "nopass", "~*", "&*", "+@all"}
		if password != "" {
			rules[1] = ">" + password
		}
		u, err := newUser(commands, DefaultUser, rules)
		if err != nil {
			return nil, err
		}
		l.users[DefaultUser] = u
	case password != "":
		return nil, fmt.Errorf("the default user's password is set twice, by requirepass and by rules")
	}
	return l, nil
}

// Anonymous returns the user of a session that has not logged in, or nil if a session must log in.
func (l *Users) Anonymous() *User {
	if u := l.users[DefaultUser]; u.on && u.noPass {
		return u
	}
	return nil
}

// Login returns the user with this name, and reports whether the user may log in with the
// password. It returns nil if there is no such user. It compares the hash with those of all of
// the user's passwords, so that its duration reveals nothing about them.
func (l *Users) Login(name, password []byte) (*User, bool) {
	hash := sha256.Sum256(password)
	u := l.users[string(name)]
	if u == nil {
		return nil, false
	}
	right := 0
	for i := range u.passwords {
		right |= subtle.ConstantTimeCompare(hash[:], u.passwords[i][:])
	}
	return u, u.on && (u.noPass || right == 1)
}

// NeedsPassword reports whether the default user needs a password. If so, AUTH may be sent with only a password.
func (l *Users) NeedsPassword() bool { return !l.users[DefaultUser].noPass }

// Renew returns the user that has the name of u, a user of an earlier list. It returns nil
// if there is no such user, or if the user is off.
func (l *Users) Renew(u *User) *User {
	if u = l.users[u.Name]; u == nil || !u.on {
		return nil
	}
	return u
}

// Names returns the sorted names of all users.
func (l *Users) Names() []string { return slices.Sorted(maps.Keys(l.users)) }

// User returns the user with this name, or nil.
func (l *Users) User(name string) *User { return l.users[name] }
