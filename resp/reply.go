package resp

import (
	"math"
	"strconv"

	"github.com/tidwall/redcon"
)

// The functions of this file append one reply, or the header of one, to dst and
// return it. proto is 2 or 3, the session's; where it is no argument, both
// protocols write the same.

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte { return redcon.AppendInt(dst, n) }

// AppendBulk appends a string of any bytes.
func AppendBulk(dst, b []byte) []byte { return redcon.AppendBulk(dst, b) }

// AppendBulkString appends a string of any bytes.
func AppendBulkString(dst []byte, s string) []byte { return redcon.AppendBulkString(dst, s) }

// AppendSimple appends a status such as OK. Line ends in s become spaces.
func AppendSimple(dst []byte, s string) []byte { return redcon.AppendString(dst, s) }

// AppendError appends an error; msg begins with its code, as in "ERR syntax
// error". Line ends in msg become spaces, so that what a client sent may be quoted
// in it.
func AppendError(dst []byte, msg string) []byte { return redcon.AppendError(dst, msg) }

// AppendArray appends the header of an array of n replies.
func AppendArray(dst []byte, n int) []byte { return redcon.AppendArray(dst, n) }

// AppendMap appends the header of a map of n pairs: key, value, key, value ...
// follow. RESP2 has no maps and gets a flat array.
func AppendMap(dst []byte, proto, n int) []byte {
	if proto < 3 {
		return redcon.AppendArray(dst, 2*n)
	}
	return appendHeader(dst, '%', n)
}

// AppendPush appends the header of an out-of-band message of n replies, an array
// in RESP2.
func AppendPush(dst []byte, proto, n int) []byte {
	if proto < 3 {
		return redcon.AppendArray(dst, n)
	}
	return appendHeader(dst, '>', n)
}

// AppendNull appends the absence of a string.
func AppendNull(dst []byte, proto int) []byte {
	if proto < 3 {
		return redcon.AppendNull(dst)
	}
	return append(dst, "_\r\n"...)
}

// AppendNullArray appends the absence of an array.
func AppendNullArray(dst []byte, proto int) []byte {
	if proto < 3 {
		return append(dst, "*-1\r\n"...)
	}
	return append(dst, "_\r\n"...)
}

// AppendDouble appends a floating-point number, a string in RESP2.
func AppendDouble(dst []byte, proto int, f float64) []byte {
	var text [32]byte
	var b []byte
	switch {
	case math.IsInf(f, 1):
		b = append(text[:0], "inf"...)
	case math.IsInf(f, -1):
		b = append(text[:0], "-inf"...)
	case math.IsNaN(f):
		b = append(text[:0], "nan"...)
	default:
		b = strconv.AppendFloat(text[:0], f, 'g', -1, 64)
	}
	if proto < 3 {
		return redcon.AppendBulk(dst, b)
	}
	dst = append(dst, ',')
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}
