// Package model is the executable specification of package lease. Only tests import it.
//
// Home and Shard are the records that the nodes keep, with the operations on them. The Lua
// functions on the nodes follow them function by function, and the engine's tests compare both
// over random histories. Like package lease they are pure: clocks and the use of windows are
// arguments, and the caller charges what they grant.
//
// The tests simulate everything around them: nodes with clocks of their own, messages that
// are lost or late, proxies that crash. The chaos test checks every admission and every
// denial against what truly happened. Each mutant leaves out one rule of the protocol, to show
// that the chaos test would notice.
//
// Reading order: shard.go and home.go, then the tests: model_test.go (short scenarios),
// world_helpers_test.go and proxy_helpers_test.go (the simulation), chaos_test.go,
// mutants_test.go and calls_test.go (what the protocol costs).
package model
