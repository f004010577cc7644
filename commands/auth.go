package commands

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/reply"
)

// randomID returns 40 random hex digits.
func randomID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails: the runtime stops the process instead
	return hex.EncodeToString(b[:])
}

// login logs the session in as the named user and reports success.
func (c *client) login(name, password []byte) bool {
	u, ok := c.acl.Login(name, password)
	if !ok {
		c.h.noLogin.Add(1)
		c.h.cfg.Logger.Debug("login refused", "client", c.s.ID, "addr", clients.Addr(c.s.Remote))
		return false
	}
	c.become(u)
	return true
}

// become sets the user. u is nil if the session is not logged in.
func (c *client) become(u *acl.User) {
	c.user = u
	c.s.Trusted = u != nil
}

func runAuth(c *client, args [][]byte) {
	name, password := []byte(acl.DefaultUser), args[1]
	switch {
	case len(args) > 3:
		c.Error(reply.ErrSyntax)
		return
	case len(args) == 3:
		name, password = args[1], args[2]
	case !c.acl.NeedsPassword():
		c.Error(reply.ErrAuthUnset)
		return
	}
	if !c.login(name, password) {
		c.Error(reply.ErrWrongPass)
		return
	}
	c.OK()
}

// renew applies new rules to the session. It closes a session whose user is gone, so that the
// client reconnects instead of getting errors forever.
func (c *client) renew(a *acl.List) {
	c.acl = a
	if c.user == nil {
		return
	}
	c.tx.spoiled = c.tx.open // the old rules allowed the queued commands
	u := a.Renew(c.user)
	c.become(u)
	if u == nil {
		c.s.CloseAfterReply()
	}
}
