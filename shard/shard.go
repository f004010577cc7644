// Package shard places keys: it says on which node a key lies, under which name the node
// stores it, and which shards a split key has. It is pure: it does no I/O and reads no
// clock.
//
// Shard 0 of a key is its home, and the only one while the key is not split. Package lease
// says how the shards of a key keep one limit, and package topk finds the keys that are
// busy enough to be split.
//
// Reading order: nodes.go (the node of a key), name.go (the names of keys and shadows), key.go
// (the stored key of a name), tag.go and slot.go (its slot in a Redis Cluster), spread.go (the
// shards of a split key in a cluster).
package shard
