// Package shard is pure placement: which node, which stored key, which part of
// how many. No I/O and no clock.
package shard
