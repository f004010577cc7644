package engine

import "github.com/rlproxy/rlproxy/shard"

// splitRules are those of lua/split.lua and lua/home.lua.
var splitRules = shard.Rules{Lease: 1000, Grace: 20}
