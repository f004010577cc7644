package commands

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// Users knows who may come in. Its methods are called by several sessions at once.
type Users interface {
	// Anonymous returns the user of a session that has not logged in, or nil when
	// it has to.
	Anonymous() *User
	// Login returns the user of that name if the password is right. How long it
	// takes must not tell how much of the password is.
	Login(name, password []byte) (*User, bool)
	// HasPassword tells whether the default user has one, so that AUTH with a
	// password alone means something.
	HasPassword() bool
}

// User is who a session acts for.
type User struct {
	Name string
}

// password is Users with one user, whom Redis calls default.
type password struct {
	user *User
	hash [sha256.Size]byte
	none bool // no password: every password is right
}

func newPassword(text string) *password {
	return &password{
		user: &User{Name: "default"},
		hash: sha256.Sum256([]byte(text)),
		none: text == "",
	}
}

func (p *password) Anonymous() *User {
	if p.none {
		return p.user
	}
	return nil
}

// Login compares hashes, so that neither the length nor the beginning of the
// password shows in the time it takes.
func (p *password) Login(name, text []byte) (*User, bool) {
	hash := sha256.Sum256(text)
	right := subtle.ConstantTimeCompare(hash[:], p.hash[:]) == 1 || p.none
	if !right || string(name) != p.user.Name {
		return nil, false
	}
	return p.user, true
}

func (p *password) HasPassword() bool { return !p.none }

// randomID returns 40 random hex digits.
func randomID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails: the runtime stops the process instead
	return hex.EncodeToString(b[:])
}

// login makes the session the named user's, and tells whether it could.
func (c *client) login(name, password []byte) bool {
	u, ok := c.h.users.Login(name, password)
	if !ok {
		c.h.cfg.Logger.Debug("login refused", "client", c.s.ID, "addr", addr(c.s.Remote))
		return false
	}
	c.become(u)
	return true
}

// become sets the user, nil for nobody.
func (c *client) become(u *User) {
	c.user = u
	c.s.Trusted = u != nil
}

func runAuth(c *client, args [][]byte) {
	name, password := []byte("default"), args[1]
	switch {
	case len(args) > 3:
		c.fail(errSyntax)
		return
	case len(args) == 3:
		name, password = args[1], args[2]
	case !c.h.users.HasPassword():
		c.fail(errAuthUnset)
		return
	}
	if !c.login(name, password) {
		c.fail(errWrongPass)
		return
	}
	c.ok()
}
