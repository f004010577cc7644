package commands

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
)

// ACL is who may come in, and what each user may do, by Redis's rules. It never
// changes: new rules are a new ACL, see Handler.SetACL.
type ACL struct {
	users map[string]*User
}

// defaultUser is whom a session acts for that has not logged in, and whom AUTH
// with a password alone means.
const defaultUser = "default"

// NewACL reads users, each a name and its rules. A default user who is not among
// them may do everything; password, if there is one, is what he must give.
func NewACL(lines [][]string, password string) (*ACL, error) {
	a := &ACL{users: make(map[string]*User)}
	t := newTable()
	for _, line := range lines {
		if len(line) == 0 || line[0] == "" {
			return nil, fmt.Errorf("a user needs a name")
		}
		name := line[0]
		if a.users[name] != nil {
			return nil, fmt.Errorf("the user %q is there twice", name)
		}
		u, err := newUser(t, name, line[1:])
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", name, err)
		}
		a.users[name] = u
	}
	switch {
	case a.users[defaultUser] == nil:
		rules := []string{"on", "nopass", "~*", "&*", "+@all"}
		if password != "" {
			rules[1] = ">" + password
		}
		u, err := newUser(t, defaultUser, rules)
		if err != nil {
			return nil, err
		}
		a.users[defaultUser] = u
	case password != "":
		return nil, fmt.Errorf("the default user's password is set twice, by requirepass and by rules")
	}
	return a, nil
}

// Anonymous returns the user of a session that has not logged in, or nil when it
// has to.
func (a *ACL) Anonymous() *User {
	if u := a.users[defaultUser]; u.on && u.noPass {
		return u
	}
	return nil
}

// login returns the user of that name if the password is right. It compares
// hashes, all of them, so that the time it takes tells nothing of a password.
func (a *ACL) login(name, password []byte) (*User, bool) {
	hash := sha256.Sum256(password)
	u := a.users[string(name)]
	if u == nil {
		return nil, false
	}
	right := 0
	for i := range u.passwords {
		right |= subtle.ConstantTimeCompare(hash[:], u.passwords[i][:])
	}
	return u, u.on && (u.noPass || right == 1)
}

// hasPassword tells whether the default user needs one, so that AUTH with a
// password alone means something.
func (a *ACL) hasPassword() bool { return !a.users[defaultUser].noPass }

// again returns what a user of an earlier ACL is in this one: nil if there is no
// such user any more, or he is off.
func (a *ACL) again(u *User) *User {
	if u = a.users[u.Name]; u == nil || !u.on {
		return nil
	}
	return u
}

// names lists the users in order.
func (a *ACL) names() []string { return slices.Sorted(maps.Keys(a.users)) }

// User is who a session acts for.
type User struct {
	Name string

	on, noPass bool
	passwords  [][sha256.Size]byte
	selectors  []selector // the rules outside of parentheses first
	free       bool       // may do everything, which follows from the selectors
}

// refusal returns the error of a command of the table that the user may not run, or
// an empty one.
func (u *User) refusal(r *row, args [][]byte) string {
	if u.free || r.early { // a login is always allowed
		return ""
	}
	near := false
	for i := range u.selectors {
		s := &u.selectors[i]
		switch {
		case !s.allowed[r.name]:
		case s.allKeys || s.mayUse(r, args):
			return ""
		default:
			near = true
		}
	}
	return noPermission(r.name, near)
}

// noPermission is the error of a command that no selector allows with all its keys.
// Redis tells of the selector that came nearest: one that allows the command itself
// leaves only the keys to blame.
func noPermission(name string, near bool) string {
	if near {
		return errNoKey
	}
	return errNoRun + name + "' command"
}
