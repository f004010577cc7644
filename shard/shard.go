// Package shard is pure placement: which node, which stored key, which part of
// how many. No I/O and no clock; where time matters it is an argument.
//
// Reading order: nodes.go (which node), key.go (which stored key), slot.go (which
// slot of a Redis Cluster), spread.go (which parts), hot.go (which keys are busy), then
// split.go and its neighbours: how one limit stands on several nodes.
package shard
