package shard

import "bytes"

// Tag returns the bytes of a stored key that determine its slot. These are the bytes
// between the first { and the first } after it, or the whole key if there are no such bytes.
func Tag(key []byte) []byte {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}
