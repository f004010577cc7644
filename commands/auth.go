package commands

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/internal/episodes"
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
		c.refuseLogin()
		return false
	}
	c.h.logins.End()
	c.setUser(u)
	return true
}

const (
	// loginDelay is the delay of the reply to a connection's first refused login. It
	// doubles with each further one, up to maxLoginDelay.
	loginDelay    = 100 * time.Millisecond
	maxLoginDelay = time.Second
	// maxRefusedLogins is how many logins are refused before the connection is closed.
	maxRefusedLogins = 10
)

// refuseLogin counts and logs a refused login, and slows down a client that guesses passwords.
func (c *client) refuseLogin() {
	c.h.LoginRefused("client", c.s.ID, "addr", clients.Addr(c.s.Remote))
	c.s.Delay(min(loginDelay<<c.refused, maxLoginDelay))
	if c.refused++; c.refused == maxRefusedLogins {
		c.s.CloseAfterReply()
	}
}

// The kinds of trouble with clients.
var (
	loginsRefused = episodes.Trouble{
		Began: "logins refused: wrong name or password", Ended: "logins succeed, and none is refused any more",
		Calm: episodes.Every,
	}
	databaseRefused = episodes.Trouble{
		Began: "a client was refused a database other than 0, and may go on in 0; " +
			"the backend's URL selects the nodes' database",
		Ended: "clients select database 0 and no other any more", Calm: episodes.Every,
	}
)

// LoginRefused counts a refused login, and logs it, see package episodes. A line has the number of refused logins, and
// the client of the last one, which client describes as pairs of names and values. It does not have the user's name, in
// whose place people have typed passwords.
func (h *Handler) LoginRefused(client ...any) {
	h.refusedLogins.Add(1)
	h.logins.Note("refused", 1, func() []any { return client })
}

// setUser sets the user. u is nil if the session is not logged in.
func (c *client) setUser(u *acl.User) {
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
func (c *client) renew(a *acl.Users) {
	c.acl = a
	if c.user == nil {
		c.setUser(a.Anonymous()) // perhaps no login is needed any more
		return
	}
	c.tx.spoiled = c.tx.open // the old rules allowed the queued commands
	u := a.Renew(c.user)
	c.setUser(u)
	if u == nil {
		c.s.CloseAfterReply()
	}
}
