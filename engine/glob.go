package engine

import "github.com/tidwall/match"

// matches tells whether a key matches a glob of * (any bytes) and ? (one character).
func matches(glob string, key []byte) bool { return match.Match(string(key), glob) }
