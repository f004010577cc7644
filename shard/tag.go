package shard

import "bytes"

// Tag returns the part of a stored key that says where it lies: its hash tag, which
// is what stands between the first { and the first } after it, if that is not empty;
// or all of it.
func Tag(key []byte) []byte {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}
