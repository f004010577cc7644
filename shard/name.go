package shard

// Engines identify a key by its name: the client's key, or its shadow, which counts
// requests with SHADOW. To an engine both are ordinary keys, so a shadow and its key never
// share a state.
//
// A name is the client's key, and ends in a mark only if it is that of a shadow, or of a key
// that would end in one of the marks itself. A mark is a byte that no text in UTF-8 has, and a letter.
const (
	markKey    = 'k' // the name of a key that ends in a mark
	markShadow = 's' // the name of a shadow
)

// The form of a mark.
const (
	Mark     = 2    // bytes of a mark, by which a name is longer than its key at most
	MarkByte = 0xFF // the first byte of a mark: a key without it in that place is its own name
)

// AppendName appends to dst the name of a client's key, or of its shadow. Names of different keys
// differ, whatever bytes they have, and so do those of a key and a shadow.
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

// ClientKey returns the client's key of a name that AppendName made, and reports whether
// the name is that of a shadow. The key shares the memory of the name: it is the name without
// its mark, so it is all of a client's key that needs none.
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
