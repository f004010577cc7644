package commands

import (
	"crypto/rand"
	"encoding/hex"
)

// randomID returns 40 random hex digits.
func randomID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails: the runtime stops the process instead
	return hex.EncodeToString(b[:])
}

// login makes the session the named user's, and tells whether it could.
func (c *client) login(name, password []byte) bool {
	u, ok := c.acl.login(name, password)
	if !ok {
		c.h.noLogin.Add(1)
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
	name, password := []byte(defaultUser), args[1]
	switch {
	case len(args) > 3:
		c.fail(errSyntax)
		return
	case len(args) == 3:
		name, password = args[1], args[2]
	case !c.acl.hasPassword():
		c.fail(errAuthUnset)
		return
	}
	if !c.login(name, password) {
		c.fail(errWrongPass)
		return
	}
	c.ok()
}

// renew has the session go on under new rules. A session whose user is gone is
// closed: that heals by itself, as an error without end does not.
func (c *client) renew(a *ACL) {
	c.acl = a
	if c.user == nil {
		return
	}
	c.tx.spoiled = c.tx.open // what is queued was allowed by the old ones
	u := a.again(c.user)
	c.become(u)
	if u == nil {
		c.s.CloseAfterReply()
	}
}
