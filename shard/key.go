package shard

import (
	"bytes"
	"strconv"
)

// A stored key has this prefix and suffix. The braces make the escaped client key and the
// shard's number the hash tag, so the shards of a key lie in different slots of a cluster.
const (
	keyPrefix = "rl:{"
	keySuffix = "}"
)

// AppendStoredKey appends to dst the name under which a node stores a shard of a client's
// key: rl:{<key>} for shard 0, the home, and rl:{<key>%p<shard>} for the others. The
// characters {, } and % of the client's key become %7B, %7D and %25. So the hash tag ends
// where it should, and names of different keys or shards differ.
func AppendStoredKey(dst, key []byte, shard int) []byte {
	dst = append(dst, keyPrefix...)
	if bytes.ContainsAny(key, "{}%") {
		dst = appendEscaped(dst, key)
	} else {
		dst = append(dst, key...)
	}
	if shard > 0 {
		dst = append(dst, "%p"...)
		dst = strconv.AppendInt(dst, int64(shard), 10)
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

// ParseStoredKey is the inverse of AppendStoredKey. It appends the client's key to dst and
// returns the extended slice and the shard. ok is false for a name that AppendStoredKey
// does not produce.
func ParseStoredKey(dst, stored []byte) (key []byte, shard int, ok bool) {
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
		if i+1 < len(rest) && rest[i+1] == 'p' { // Only the shard is left.
			shard, ok = parseShard(rest[i+2:])
			if !ok {
				return dst[:from], 0, false
			}
			return dst, shard, true
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

// parseShard parses a shard's number as AppendStoredKey writes it: at most nine digits, not
// 0, without a sign or a leading zero.
func parseShard(digits []byte) (int, bool) {
	if len(digits) == 0 || len(digits) > 9 || digits[0] == '0' {
		return 0, false
	}
	shard := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		shard = shard*10 + int(c-'0')
	}
	return shard, true
}
