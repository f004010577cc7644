// Package shard places keys: it determines the node of a key, the name under which the node stores it, and the shards
// of a split key. It is pure: it does no I/O and reads no clock.
//
// Shard 0 of a key is its home, and the only one while the key is not split. Package lease has the protocol by which
// the shards of a key enforce one limit, and package topk finds the busiest keys.
//
// Reading order: nodes.go (the node of a key), name.go (the names of keys and shadows), key.go (the stored key of a
// name), tag.go and slot.go (its slot in a Redis Cluster), spread.go (the shards of a split key in a cluster).
package shard
