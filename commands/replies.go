package commands

import (
	"strconv"

	"github.com/rlproxy/rlproxy/resp"
)

// The methods of this file append to the session's replies. Commands that run here
// answer with them.

func (c *client) fail(msg string)       { c.s.Out = resp.AppendError(c.s.Out, msg) }
func (c *client) ok()                   { c.status("OK") }
func (c *client) status(s string)       { c.s.Out = resp.AppendSimple(c.s.Out, s) }
func (c *client) int(n int64)           { c.s.Out = resp.AppendInt(c.s.Out, n) }
func (c *client) bulk(b []byte)         { c.s.Out = resp.AppendBulk(c.s.Out, b) }
func (c *client) text(s string)         { c.s.Out = resp.AppendBulkString(c.s.Out, s) }
func (c *client) null()                 { c.s.Out = resp.AppendNull(c.s.Out, c.s.Proto) }
func (c *client) array(n int)           { c.s.Out = resp.AppendArray(c.s.Out, n) }
func (c *client) dict(pairs int)        { c.s.Out = resp.AppendMap(c.s.Out, c.s.Proto, pairs) }
func (c *client) message(n int)         { c.s.Out = resp.AppendPush(c.s.Out, c.s.Proto, n) }
func (c *client) field(key, val string) { c.text(key); c.text(val) }

// set begins a set of n elements, an array in RESP2.
func (c *client) set(n int) {
	if c.s.Proto < 3 {
		c.array(n)
		return
	}
	c.head('~', n)
}

// verbatim appends a text for people to read, which RESP3 marks as such.
func (c *client) verbatim(s string) {
	if c.s.Proto < 3 {
		c.text(s)
		return
	}
	c.head('=', len(s)+len("txt:"))
	c.s.Out = append(c.s.Out, "txt:"...)
	c.s.Out = append(c.s.Out, s...)
	c.s.Out = append(c.s.Out, "\r\n"...)
}

func (c *client) head(kind byte, n int) {
	c.s.Out = append(c.s.Out, kind)
	c.s.Out = strconv.AppendInt(c.s.Out, int64(n), 10)
	c.s.Out = append(c.s.Out, "\r\n"...)
}

// statuses appends a set of statuses.
func (c *client) statuses(words []string) {
	c.set(len(words))
	for _, w := range words {
		c.status(w)
	}
}
