package shard

import (
	"bytes"
	"strconv"
)

// A stored key has this prefix and suffix. The braces make the escaped client key and the
// shard's number the hash tag, so the shards of a key are in different slots of a cluster.
const (
	keyPrefix = "rl:{"
	keySuffix = "}"
)

// AppendStoredKey appends to dst the key under which a node stores a shard of the named key: rl:{<key>} for shard 0,
// the home, and rl:{<key>%p<shard>} for the others. For a shadow they are rl:{<key>%s} and rl:{<key>%s%p<shard>}. See
// AppendName for names. The characters {, } and % of the client's key become %7B, %7D and %25. So the hash tag ends
// where it should, and stored keys of different names or shards differ.
func AppendStoredKey(dst, name []byte, shard int) []byte {
	key, shadow := ClientKey(name)
	dst = append(dst, keyPrefix...)
	if bytes.ContainsAny(key, "{}%") {
		dst = appendEscaped(dst, key)
	} else {
		dst = append(dst, key...)
	}
	if shadow {
		dst = append(dst, "%s"...)
	}
	if shard > 0 {
		dst = append(dst, "%p"...)
		dst = strconv.AppendInt(dst, int64(shard), 10)
	}
	return append(dst, keySuffix...)
}

// AppendIDsKey appends to dst the key under which the home's node stores the request ids of the
// named key: the home's stored key followed by %i. Both have the same hash tag, and so the same slot.
func AppendIDsKey(dst, name []byte) []byte {
	return append(AppendStoredKey(dst, name, 0), "%i"...)
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

// ParseStoredKey is the inverse of AppendStoredKey. It appends the name to dst and returns the extended slice and the
// shard. ok is false for a stored key that AppendStoredKey does not produce.
func ParseStoredKey(dst, stored []byte) (name []byte, shard int, ok bool) {
	rest, found := bytes.CutPrefix(stored, []byte(keyPrefix))
	if !found {
		return dst, 0, false
	}
	if rest, found = bytes.CutSuffix(rest, []byte(keySuffix)); !found {
		return dst, 0, false
	}
	rest, shard, ok = cutShard(rest)
	if !ok {
		return dst, 0, false
	}
	rest, shadow := bytes.CutSuffix(rest, []byte("%s"))
	key, ok := unescape(rest)
	if !ok {
		return dst, 0, false
	}
	return AppendName(dst, key, shadow), shard, true
}

// cutShard splits rest at %p<shard>. Without that suffix the shard is 0. ok is false if the
// suffix is not a valid shard number.
func cutShard(rest []byte) (before []byte, shard int, ok bool) {
	i := bytes.Index(rest, []byte("%p")) // an escaped % is followed by digits
	if i < 0 {
		return rest, 0, true
	}
	shard, ok = parseShard(rest[i+2:])
	return rest[:i], shard, ok
}

// unescape is the inverse of appendEscaped.
func unescape(key []byte) (plain []byte, ok bool) {
	if bytes.ContainsAny(key, "{}") {
		return nil, false
	}
	for {
		before, after, found := bytes.Cut(key, []byte("%"))
		if !found {
			return append(plain, key...), true
		}
		if len(after) < 2 {
			return nil, false
		}
		plain = append(plain, before...)
		switch string(after[:2]) {
		case "7B":
			plain = append(plain, '{')
		case "7D":
			plain = append(plain, '}')
		case "25":
			plain = append(plain, '%')
		default:
			return nil, false
		}
		key = after[2:]
	}
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
