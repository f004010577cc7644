package commands

import (
	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
)

func runClientGetName(c *client, _ [][]byte) {
	if c.own.Name == "" {
		c.Null()
		return
	}
	c.Text(c.own.Name)
}

func runClientInfo(c *client, _ [][]byte) {
	c.publish()
	c.Verbatim(string(c.public.AppendLine(nil, c.h.cfg.Now())))
}

func runClientReply(c *client, args [][]byte) {
	switch {
	case word.Is(args[2], "ON"):
		c.off, c.skip = false, false
		c.OK()
	case word.Is(args[2], "OFF"):
		c.off = true
	case word.Is(args[2], "SKIP"):
		c.skipNext = !c.off
	default:
		c.Error(reply.ErrSyntax)
	}
}

func runClientSetInfo(c *client, args [][]byte) { c.okOr(c.own.SetInfo(args[2], args[3])) }

func runClientSetName(c *client, args [][]byte) { c.okOr(c.own.SetName(args[2])) }

// okOr replies with an error, or with OK if msg is empty.
func (c *client) okOr(msg string) {
	if msg != "" {
		c.Error(msg)
		return
	}
	c.OK()
}

// toggle sets v by the word ON or OFF, and replies.
func (c *client) toggle(v *bool, w []byte) {
	switch {
	case word.Is(w, "ON"):
		*v = true
	case word.Is(w, "OFF"):
		*v = false
	default:
		c.Error(reply.ErrSyntax)
		return
	}
	c.OK()
}

// runClientTracking accepts only the mode that promises nothing: with OPTIN, keys are tracked
// only after CLIENT CACHING YES, which rlproxy refuses.
func runClientTracking(c *client, args [][]byte) {
	on := word.Is(args[2], "ON")
	switch {
	case !on && !word.Is(args[2], "OFF"):
		c.Error(reply.ErrSyntax)
	case on && (len(args) != 4 || !word.Is(args[3], "OPTIN")):
		c.Error(reply.ErrTracking)
	default:
		c.own.Tracked = on
		c.OK()
	}
}

// publish makes the session's facts visible to other sessions.
func (c *client) publish() {
	now := c.own
	now.Cmd, now.Proto, now.Subs, now.Multi, now.Waits = c.cmd, c.s.Proto, len(c.subs), -1, c.blocked != nil
	if c.user != nil {
		now.User = c.user.Name
	}
	if c.tx.open {
		now.Multi = len(c.tx.queue)
	}
	c.public.Publish(now)
}

func runClientList(c *client, args [][]byte) {
	f, msg := clients.ParseList(args[2:])
	if msg != "" {
		c.Error(msg)
		return
	}
	c.publish()
	now, all := c.h.cfg.Now(), c.h.clients.All()
	const line = 4 * (clients.MaxName + 256) // bytes of a long line, while the text is built and copied
	if !c.s.Reserve(line * len(all)) {
		c.Error(reply.ErrNoMemory)
		return
	}
	defer c.s.Reserve(-line * len(all))
	var b []byte
	for _, other := range all {
		if f.Matches(other) {
			b = other.AppendLine(b, now)
		}
	}
	c.Verbatim(string(b))
}

// runClientUnblock ends the wait of another client's command.
func runClientUnblock(c *client, args [][]byte) {
	id, ok := word.Integer(args[2])
	refused := ""
	switch {
	case !ok:
		c.Error(reply.ErrNotInteger)
		return
	case len(args) == 4 && word.Is(args[3], "ERROR"):
		refused = reply.ErrUnblocked
	case len(args) > 4 || len(args) == 4 && !word.Is(args[3], "TIMEOUT"):
		c.Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		return
	}
	if c.h.cfg.Waiting != nil && c.h.cfg.Waiting.Unblock(id, refused) {
		c.Int(1)
		return
	}
	c.Int(0)
}

func runClientKill(c *client, args [][]byte) {
	c.publish()
	if len(args) == 3 { // the old form: an address, which may be the caller's own
		if c.kill(clients.ByAddr(string(args[2])), false) == 0 {
			c.Error(reply.ErrNoClient)
			return
		}
		c.OK()
		return
	}
	f, skipMe, msg := clients.ParseKill(args[2:], func(user string) bool { return c.acl.User(user) != nil })
	if msg != "" {
		c.Error(msg)
		return
	}
	c.Int(c.kill(f, skipMe))
}

// kill closes the sessions that f selects and returns their number.
func (c *client) kill(f clients.Filter, skipMe bool) int64 {
	n := int64(0)
	for _, other := range c.h.clients.All() {
		switch {
		case !f.Matches(other):
		case other == c.public && !skipMe:
			c.s.CloseAfterReply()
			n++
		case other != c.public && c.h.cfg.Clients != nil && c.h.cfg.Clients.Kill(other.ID):
			c.h.clients.Remove(other.ID) // as in Redis, it is gone at once
			n++
		}
	}
	return n
}
