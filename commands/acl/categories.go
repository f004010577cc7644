package acl

import "slices"

// categories are Redis's, in its order, followed by rlproxy's own.
var categories = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
	"ratelimit",
}

// Categories returns the names of all categories, without the @, in Redis's order.
func Categories() []string { return slices.Clone(categories) }
