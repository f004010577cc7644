// Package lua holds the scripts that decide on a Redis node: one script a file,
// each an immutable name, source and hash.
package lua
