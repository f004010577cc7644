package commands

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"
)

// snapshot returns what CLIENT LIST tells of the session.
func (c *client) snapshot() facts {
	f := c.own
	f.proto, f.subs, f.multi = c.s.Proto, len(c.subs), -1
	if c.user != nil {
		f.user = c.user.Name
	}
	if c.cmd != nil {
		f.cmd = c.cmd.name
	}
	if c.tx.open {
		f.multi = len(c.tx.queue)
	}
	return f
}

// publish shows other sessions what has changed.
func (c *client) publish() {
	now := c.snapshot()
	if now == c.shown { // only this goroutine writes it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = now
}

// facts returns what the session last published. Any goroutine may call it.
func (c *client) facts() facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}

// all returns the open sessions by their numbers.
func (h *Handler) all() []*client {
	h.mu.Lock()
	defer h.mu.Unlock()
	cs := make([]*client, 0, len(h.clients))
	for _, c := range h.clients {
		cs = append(cs, c)
	}
	slices.SortFunc(cs, func(a, b *client) int { return cmp.Compare(a.s.ID, b.s.ID) })
	return cs
}

// unmeasured are fields of Redis that we do not measure. Client libraries parse
// each of them as a number, and fail where one is missing.
const unmeasured = " qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r"

// line appends the session's line of CLIENT LIST. Any goroutine may call it.
func (c *client) line(b []byte, now time.Time) []byte {
	f := c.facts()
	flags := ""
	for _, x := range []struct {
		flag string
		on   bool
	}{{"P", f.subs > 0}, {"x", f.multi >= 0}, {"t", f.tracked}, {"e", f.noEvict}, {"T", f.noTouch}} {
		if x.on {
			flags += x.flag
		}
	}
	redir := int64(-1)
	if f.tracked {
		redir = 0
	}
	if flags == "" {
		flags = "N"
	}
	idle := now.UnixMilli() - c.seen.Load()
	b = appendPair(b, "id", c.s.ID)
	b = append(b, " addr="+addr(c.s.Remote)+" laddr="+addr(c.s.Local)+" fd=-1 name="+f.name...)
	b = appendPair(b, " age", int64(now.Sub(c.s.Created)/time.Second))
	b = appendPair(b, " idle", max(idle, 0)/1000)
	b = append(b, " flags="+flags+" db=0"...)
	b = appendPair(b, " sub", int64(f.subs))
	b = append(b, " psub=0 ssub=0"...)
	b = appendPair(b, " multi", int64(f.multi))
	b = append(b, unmeasured...)
	b = append(b, " cmd="+cmp.Or(f.cmd, "NULL")+" user="+f.user...)
	b = appendPair(b, " redir", redir)
	b = appendPair(b, " resp", int64(f.proto))
	return append(b, " lib-name="+f.lib+" lib-ver="+f.libVer+"\n"...)
}

func appendPair(b []byte, name string, n int64) []byte {
	b = append(append(b, name...), '=')
	return strconv.AppendInt(b, n, 10)
}

// addr is an address as Redis writes it: a Unix socket's path has port 0.
func addr(a net.Addr) string {
	switch {
	case a == nil:
		return ""
	case a.Network() == "unix":
		return a.String() + ":0"
	}
	return a.String()
}

// filter chooses sessions for CLIENT LIST and CLIENT KILL. Fields left zero do not
// restrict.
type filter struct {
	ids               []int64
	typ               string // in lower case
	user, addr, laddr *string
}

func (f *filter) matches(c *client) bool {
	facts := c.facts()
	typ := "normal"
	if facts.subs > 0 {
		typ = "pubsub"
	}
	switch {
	case f.ids != nil && !slices.Contains(f.ids, c.s.ID),
		f.typ != "" && f.typ != typ,
		f.user != nil && *f.user != facts.user,
		f.addr != nil && *f.addr != addr(c.s.Remote),
		f.laddr != nil && *f.laddr != addr(c.s.Local):
		return false
	}
	return true
}

// setType restricts to a type of sessions, or answers why not.
func (f *filter) setType(c *client, word []byte) bool {
	switch {
	case fold(word, "NORMAL"):
		f.typ = "normal"
	case fold(word, "PUBSUB"):
		f.typ = "pubsub"
	case fold(word, "MASTER"), fold(word, "REPLICA"), fold(word, "SLAVE"):
		f.typ = "none of ours"
	default:
		c.fail("ERR Unknown client type '" + string(cString(word, quoted)) + "'")
		return false
	}
	return true
}

func runClientList(c *client, args [][]byte) {
	var f filter
	switch {
	case len(args) == 2:
	case len(args) == 4 && fold(args[2], "TYPE"):
		if !f.setType(c, args[3]) {
			return
		}
	case len(args) > 3 && fold(args[2], "ID"):
		for _, a := range args[3:] {
			id, ok := integer(a)
			if !ok {
				c.fail(errClientID)
				return
			}
			f.ids = append(f.ids, id)
		}
	default:
		c.fail(errSyntax)
		return
	}
	c.publish()
	now := c.h.cfg.Now()
	var b []byte
	for _, other := range c.h.all() {
		if f.matches(other) {
			b = other.line(b, now)
		}
	}
	c.verbatim(string(b))
}

func runClientKill(c *client, args [][]byte) {
	c.publish()
	if len(args) == 3 { // the form of Redis 2: an address, which may be one's own
		to := string(args[2])
		if c.kill(filter{addr: &to}, false) == 0 {
			c.fail(errNoClient)
			return
		}
		c.ok()
		return
	}
	var f filter
	skipMe := true
	rest := args[2:]
	for ; len(rest) >= 2; rest = rest[2:] {
		value := string(rest[1])
		switch {
		case fold(rest[0], "ID"):
			id, ok := integer(rest[1])
			if !ok || id < 1 {
				c.fail(errKillID)
				return
			}
			f.ids = []int64{id}
		case fold(rest[0], "TYPE"):
			if !f.setType(c, rest[1]) {
				return
			}
		case fold(rest[0], "USER"):
			f.user = &value
		case fold(rest[0], "ADDR"):
			f.addr = &value
		case fold(rest[0], "LADDR"):
			f.laddr = &value
		case fold(rest[0], "SKIPME") && fold(rest[1], "YES"):
			skipMe = true
		case fold(rest[0], "SKIPME") && fold(rest[1], "NO"):
			skipMe = false
		default:
			c.fail(errSyntax)
			return
		}
	}
	if len(rest) > 0 {
		c.fail(errSyntax)
		return
	}
	c.int(c.kill(f, skipMe))
}

// kill closes the sessions that f chooses and tells how many.
func (c *client) kill(f filter, skipMe bool) int64 {
	n := int64(0)
	for _, other := range c.h.all() {
		switch {
		case !f.matches(other):
		case other == c && !skipMe:
			c.s.CloseAfterReply()
			n++
		case other != c && c.h.cfg.Clients != nil && c.h.cfg.Clients.Kill(other.s.ID):
			n++
		}
	}
	return n
}
