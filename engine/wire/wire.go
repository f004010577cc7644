// Package wire encodes the arguments and decodes the replies of the functions of the library
// on the nodes. It is pure. lua/messages.lua is the table of the messages on the other side.
//
// Messages that decide are packed: their integers are unsigned and big-endian, and comments give the size
// of each in bytes after its name: "clock 6". The rare ones are maps with names (message.go). Replies are
// not trusted: decoding checks lengths and bounds, and returns an error rather than a number that package
// limit cannot handle.
//
// Reading order: wire.go (this file), call.go (a batch of decisions as it is sent, and its specs), reply.go
// (its reply), hold.go (requests with an id, and multi-key requests), format.go (how some of these are
// packed), message.go, inspect.go (RL.INSPECT), lease.go (the messages of split keys) and library.go
// (errors about the library).
package wire

import "errors"

// Errors of replies.
var (
	errMalformed    = errors.New("the node's reply is malformed")
	errInconsistent = errors.New("the node's reply contradicts itself")
)

// appendUint appends the low n bytes of v, big-endian.
func appendUint(b []byte, v int64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i))) // #nosec G115 -- only the low byte is wanted
	}
	return b
}

// flag returns bit if set is true, else 0.
func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// reader takes integers off the front of a reply.
type reader struct {
	s   string
	bad bool // the reply ended before something that was to be read
}

// uint reads an integer of n bytes. It returns 0 and sets bad if fewer are left.
func (r *reader) uint(n int) int64 {
	if len(r.s) < n {
		r.bad, r.s = true, ""
		return 0
	}
	var v int64
	for i := range n {
		v = v<<8 | int64(r.s[i])
	}
	r.s = r.s[n:]
	return v
}

// text reads n bytes. It returns "" and sets bad if fewer are left.
func (r *reader) text(n int64) string {
	if int64(len(r.s)) < n {
		r.bad, r.s = true, ""
		return ""
	}
	t := r.s[:n]
	r.s = r.s[n:]
	return t
}

// end returns an error if the reply was shorter or longer than what was read.
func (r *reader) end() error {
	if r.bad || r.s != "" {
		return errMalformed
	}
	return nil
}
