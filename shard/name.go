package shard

// Engines identify a key by its name. A client's key has one name, and its shadow, which counts requests with SHADOW,
// has another. To an engine the two are unrelated keys, so they never share state.
//
// The name of a key is the key itself, and the name of a shadow is the key followed by a mark. A key that happens to
// end in a mark is followed by another mark. A mark is a byte that never occurs in UTF-8, and a letter.
const (
	markKey    = 'k' // the name of a key that ends in a mark
	markShadow = 's' // the name of a shadow
)

// The form of a mark.
const (
	Mark     = 2    // length of a mark in bytes
	MarkByte = 0xFF // first byte of a mark; a key without it in the second to last place is its own name
)

// AppendName appends to dst the name of a client's key, or of its shadow. Different keys have
// different names, whatever bytes they contain, and no key has the name of a shadow.
func AppendName(dst, key []byte, shadow bool) []byte {
	dst = append(dst, key...)
	if shadow {
		return append(dst, MarkByte, markShadow)
	}
	if before, _ := ClientKey(key); len(before) < len(key) {
		return append(dst, MarkByte, markKey)
	}
	return dst
}

// ClientKey is the inverse of AppendName. It returns the client's key, and reports whether the
// name is that of a shadow. The key shares the memory of the name.
func ClientKey(name []byte) (key []byte, shadow bool) {
	end := len(name) - Mark
	if end < 0 || name[end] != MarkByte {
		return name, false
	}
	switch name[end+1] {
	case markShadow:
		return name[:end], true
	case markKey:
		return name[:end], false
	}
	return name, false
}
