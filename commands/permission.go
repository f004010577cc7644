package commands

import (
	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine/forward"
)

// NewACL parses users for the commands of the table, see acl.New.
func NewACL(lines [][]string, password string) (*acl.Users, error) {
	known := make(acl.Commands)
	for name, r := range newRegistry(new(Config)).byName {
		known[name] = r.InCategory
	}
	return acl.New(lines, password, known)
}

// everybody is the list in which every client may do everything without a login.
var everybody = func() *acl.Users {
	l, err := NewACL(nil, "")
	if err != nil {
		panic(err)
	}
	return l
}()

// denied returns the error reply if the user's rules refuse a command, and counts it. Else it returns "".
func (c *client) denied(r *row, args [][]byte) string {
	name, noKey, verdict := r.Name, reply.ErrNoKey, acl.Allowed
	switch {
	case r == &forwardRow:
		o, err := c.h.cfg.Forward.Describe(&c.forward, args)
		if err != nil {
			return c.forwardError(args, err)
		}
		if o.Whole {
			noKey = reply.ErrNotAll + o.Name + "' command"
		}
		name, verdict = o.Name, c.checkForwarded(&o)
	case !r.early: // a login is always allowed
		if r.AllKeys {
			noKey = reply.ErrNotAll + r.Name + "' command"
		}
		verdict = c.check(r, args)
	}
	switch verdict {
	case acl.NoKey:
		c.h.deniedKeys.Add(1)
		return noKey
	case acl.NoCommand:
		c.h.deniedCommands.Add(1)
		return reply.ErrNoRun + name + "' command"
	}
	return ""
}

// check checks whether the user may run a command of the table.
func (c *client) check(r *row, args [][]byte) acl.Permission {
	return c.user.Check(
		func(s *acl.Selector) bool { return s.Allows(r.Name) },
		func(s *acl.Selector) bool { return s.AllKeys() || mayUse(s, r, args) })
}

// mayUse reports whether the selector, which does not allow everything about every key, allows the keys of a
// command of the table.
func mayUse(s *acl.Selector, r *row, args [][]byte) bool {
	write := r.Has("write")
	read := write || r.Has("readonly") // WATCH neither reads nor writes
	if r.AllKeys {
		return !write && s.ReadsAllKeys()
	}
	var buf [128]byte
	for i := r.Keys.First; 0 < i && i < len(args); i = r.Keys.After(args, i) { // CL.THROTTLE may come without its key
		if !s.MayKey(r.Keys.Key(buf[:0], args, i), read, write) {
			return false
		}
	}
	return true
}

// mayEach reports whether the selector allows every use of a key.
func mayEach(s *acl.Selector, uses []forward.KeyUse) bool {
	for i := range uses {
		if !s.MayKey(uses[i].Key, uses[i].Read, uses[i].Write) {
			return false
		}
	}
	return true
}

// checkForwarded checks whether the user may run a forwarded command.
//
// A node cannot check what a script does, or how a command uses keys that it does not name, since it sees only
// rlproxy's own user. So scripts need a user who may do everything, and commands with unnamed keys need a selector that
// allows every key. So do commands such as SCAN and DBSIZE, which concern all keys; in Redis they need no key at all.
func (c *client) checkForwarded(o *forward.Description) acl.Permission {
	in := func(category string) bool { return o.Categories[category] }
	if o.Categories["@scripting"] {
		return acl.NoCommand
	}
	return c.user.Check(
		func(s *acl.Selector) bool { return s.MayRun(o.Name, in) },
		func(s *acl.Selector) bool {
			if o.Whole {
				return s.AllKeys() || o.ReadOnly && s.ReadsAllKeys()
			}
			return s.AllKeys() || o.All && mayEach(s, o.Uses)
		})
}
