// Package replies merges the replies of several nodes to one command, and leaves keys out of replies. It does not copy
// what it merges. Functions that merge return false if the replies cannot be merged.
package replies

import (
	"bytes"
	"strconv"
)

// Array is a merged array.
type Array struct {
	Len   int      // the number of elements
	Parts [][]byte // the elements, in order; a part may have several
}

// Line returns a line of a reply.
func Line(kind byte, n int64) []byte {
	return append(strconv.AppendInt([]byte{kind}, n, 10), "\r\n"...)
}

// Sum adds integers to total.
func Sum(total *int64, replies [][]byte) bool {
	for _, raw := range replies {
		line, ok := bytes.CutSuffix(raw, []byte("\r\n"))
		if !ok || len(line) == 0 || line[0] != ':' {
			return false
		}
		n, err := strconv.ParseInt(string(line[1:]), 10, 64)
		if err != nil {
			return false
		}
		*total += n
	}
	return true
}

// ByKey appends to a the elements of arrays that have an element for each key. order has the index of the array for
// each key.
func ByKey(a *Array, replies [][]byte, order []int) bool {
	rest := make([][]byte, len(replies))
	for i, raw := range replies {
		_, elements, ok := split(raw)
		if !ok {
			return false
		}
		rest[i] = elements
	}
	for _, at := range order {
		n := elementSize(rest[at])
		if n == 0 {
			return false
		}
		a.Parts, rest[at] = append(a.Parts, rest[at][:n:n]), rest[at][n:]
	}
	a.Len += len(order)
	return true
}

// Concat appends arrays to a.
func Concat(a *Array, replies [][]byte) bool {
	for _, raw := range replies {
		n, elements, ok := split(raw)
		if !ok {
			return false
		}
		a.Len += n
		a.Parts = append(a.Parts, elements)
	}
	return true
}

// Every appends to a what holds on all nodes: an element is 1 if it is 1 in all replies and no node is away, and
// otherwise 0. Replies that are not arrays are those of nodes that are away.
func Every(a *Array, replies [][]byte, away bool) bool {
	no, yes := Line(':', 0), Line(':', 1)
	var all []byte
	for _, raw := range replies {
		n, elements, ok := split(raw)
		switch {
		case !ok && away:
		case !ok || len(elements) != n*len(yes) || bytes.Count(elements, no)+bytes.Count(elements, yes) != n:
			return false
		case all != nil && n != a.Len:
			return false
		case all == nil:
			a.Len, all = n, bytes.Clone(elements)
		default:
			for i := range all {
				all[i] = min(all[i], elements[i]) // 0 is less than 1
			}
		}
	}
	if away {
		all = bytes.Repeat(no, a.Len)
	}
	a.Parts = [][]byte{all}
	return true
}

// Without removes the strings that begin with prefix from the reply of a command that lists keys: an array of keys, or
// one that ends in such an array, as that of SCAN does. It returns any other reply as it is. It works in place.
func Without(prefix string, raw []byte) []byte {
	if !bytes.Contains(raw, []byte("\n"+prefix)) {
		return raw
	}
	at := 0 // where the array of keys begins
	if first := bytes.IndexByte(raw, '\n') + 1; first < len(raw) && raw[first] == '$' {
		if second := first + elementSize(raw[first:]); second < len(raw) && raw[second] == '*' {
			at = second
		}
	}
	keys := raw[at+bytes.IndexByte(raw[at:], '\n')+1:]
	kept := int64(0)
	for rest := keys; len(rest) > 0; {
		size := elementSize(rest)
		if size == 0 {
			return raw // not an array of keys
		}
		if !Begins(rest[:size], prefix) {
			kept++
		}
		rest = rest[size:]
	}
	out := raw[:at]
	out = append(out, Line('*', kept)...) // not longer than the line before
	for len(keys) > 0 {
		size := elementSize(keys)
		if !Begins(keys[:size], prefix) {
			out = append(out, keys[:size]...)
		}
		keys = keys[size:]
	}
	return out
}

// Begins reports whether a reply is a string that begins with prefix.
func Begins(raw []byte, prefix string) bool {
	return len(raw) > 0 && raw[0] == '$' && bytes.HasPrefix(raw[bytes.IndexByte(raw, '\n')+1:], []byte(prefix))
}

// split returns the number of elements of an array, and its bytes after the header.
func split(raw []byte) (n int, elements []byte, ok bool) {
	header, elements, ok := bytes.Cut(raw, []byte("\r\n"))
	if !ok || len(header) == 0 || header[0] != '*' {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(header[1:]))
	return n, elements, err == nil && 0 <= n && n <= len(elements)
}

// elementSize returns the size of the string, null or number at the start of b, or 0 if there is none.
func elementSize(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if n < len("_\r\n") || b[0] == '*' || b[0] == '%' || b[0] == '~' {
		return 0
	}
	if b[0] != '$' || b[1] == '-' {
		return n
	}
	length, err := strconv.Atoi(string(b[1 : n-2]))
	if err != nil || length > len(b) || n+length+2 > len(b) {
		return 0
	}
	return n + length + 2
}
