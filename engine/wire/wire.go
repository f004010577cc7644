// Package wire is the bytes that are exchanged with the library of functions on the
// nodes: it encodes what a function is asked and decodes what it answers. It is
// pure. lua/layout.lua documents the same bytes from the other side, and the header
// of each function's file says which of them it takes and returns.
//
// Integers are unsigned and big-endian. A node may answer anything: decoding checks
// lengths and bounds and returns an error, never a number that package limit is not
// made for.
//
// Reading order: wire.go (this file), call.go (a batch of decisions as it is sent),
// reply.go (what comes back), hold.go (requests with an id, and several keys at once),
// inspect.go, and lease.go, the messages of split keys.
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
		b = append(b, byte(v>>(8*i))) // #nosec G115 -- the byte is what is wanted
	}
	return b
}

// flag returns the bit if set is true.
func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// reader takes integers off the front of a reply.
type reader struct {
	s   string
	bad bool // something was read past the end
}

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
