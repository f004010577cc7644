package shard

import (
	"bytes"
	"strconv"
)

// Stored keys begin and end so. The braces make the escaped client key, with its
// part, the hash tag: parts of one key lie in different slots of a cluster.
const (
	keyPrefix = "rl:{"
	keySuffix = "}"
)

// AppendStoredKey appends to dst the name under which a node keeps a part of a
// client's key: rl:{<key>} for part 0, the home, and rl:{<key>%p<part>} for others.
// In the client's key {, } and % are written %7B, %7D and %25, so the tag ends
// where it should and no two (key, part) share a name.
func AppendStoredKey(dst, key []byte, part int) []byte {
	dst = append(dst, keyPrefix...)
	if bytes.ContainsAny(key, "{}%") {
		dst = appendEscaped(dst, key)
	} else {
		dst = append(dst, key...)
	}
	if part > 0 {
		dst = append(dst, "%p"...)
		dst = strconv.AppendInt(dst, int64(part), 10)
	}
	return append(dst, keySuffix...)
}

func appendEscaped(dst, key []byte) []byte {
	for _, c := range key {
		switch c {
		case '{':
			dst = append(dst, "%7B"...)
		case '}':
			dst = append(dst, "%7D"...)
		case '%':
			dst = append(dst, "%25"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// ParseStoredKey is the inverse of AppendStoredKey: it appends the client's key to
// dst and returns it with the part. ok is false for a name that AppendStoredKey
// does not make.
func ParseStoredKey(dst, stored []byte) (key []byte, part int, ok bool) {
	rest, found := bytes.CutPrefix(stored, []byte(keyPrefix))
	if !found {
		return dst, 0, false
	}
	if rest, found = bytes.CutSuffix(rest, []byte(keySuffix)); !found {
		return dst, 0, false
	}
	from := len(dst)
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		if c == '{' || c == '}' {
			return dst[:from], 0, false
		}
		if c != '%' {
			dst = append(dst, c)
			continue
		}
		if i+1 < len(rest) && rest[i+1] == 'p' { // only the part is left
			part, ok = parsePart(rest[i+2:])
			if !ok {
				return dst[:from], 0, false
			}
			return dst, part, true
		}
		if i+2 >= len(rest) {
			return dst[:from], 0, false
		}
		switch string(rest[i+1 : i+3]) {
		case "7B":
			dst = append(dst, '{')
		case "7D":
			dst = append(dst, '}')
		case "25":
			dst = append(dst, '%')
		default:
			return dst[:from], 0, false
		}
		i += 2
	}
	return dst, 0, true
}

// parsePart reads a part number as AppendStoredKey writes it: no sign, no leading
// zero, not 0, at most nine digits.
func parsePart(digits []byte) (int, bool) {
	if len(digits) == 0 || len(digits) > 9 || digits[0] == '0' {
		return 0, false
	}
	part := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		part = part*10 + int(c-'0')
	}
	return part, true
}
