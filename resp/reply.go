package resp

import (
	"strconv"

	"github.com/tidwall/redcon"
)

// The functions of this file append a reply, or the header of one, to dst. proto is the
// session's protocol, 2 or 3; functions without it write the same in both.

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte { return redcon.AppendInt(dst, n) }

// AppendBulk appends a string of any bytes.
func AppendBulk(dst, b []byte) []byte { return redcon.AppendBulk(dst, b) }

// AppendBulkString appends a string of any bytes.
func AppendBulkString(dst []byte, s string) []byte { return redcon.AppendBulkString(dst, s) }

// AppendSimple appends a status such as OK. Line ends in s are replaced by spaces.
func AppendSimple(dst []byte, s string) []byte { return redcon.AppendString(dst, s) }

// AppendError appends an error. msg begins with a code, as in "ERR syntax error". Line
// ends in msg are replaced by spaces, so that it may quote what a client sent.
func AppendError(dst []byte, msg string) []byte { return redcon.AppendError(dst, msg) }

// AppendArray appends the header of an array of n replies.
func AppendArray(dst []byte, n int) []byte { return redcon.AppendArray(dst, n) }

// AppendMap appends the header of a map of n pairs. The keys and values follow in turn.
// RESP2 has no maps and gets a flat array.
func AppendMap(dst []byte, proto, n int) []byte {
	if proto < 3 {
		return redcon.AppendArray(dst, 2*n)
	}
	return appendHeader(dst, '%', n)
}

// AppendPush appends the header of an out-of-band message of n replies, an array in RESP2.
func AppendPush(dst []byte, proto, n int) []byte {
	if proto < 3 {
		return redcon.AppendArray(dst, n)
	}
	return appendHeader(dst, '>', n)
}

// AppendNull appends a null string.
func AppendNull(dst []byte, proto int) []byte {
	if proto < 3 {
		return redcon.AppendNull(dst)
	}
	return append(dst, "_\r\n"...)
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}
