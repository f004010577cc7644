package commands

import (
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
)

// hotKeysRow is RL.HOTKEYS.
func hotKeysRow() row {
	return row{
		name: "rl.hotkeys", arity: -1, flags: []string{"readonly"}, group: "ratelimit", since: "1.0.0",
		cost:    "O(N*log(N)) with N the number of keys that are watched",
		summary: "Lists the busiest keys seen by this proxy",
		args:    []arg{{name: "n", typ: "integer", token: "COUNT", optional: true, about: "most keys to list, 10 if not given"}},
		replies: "Array, the busiest key first. Each element is an array: key, decisions per second, admitted, denied, sub-shards.",
		example: []example{{"RL.HOTKEYS COUNT 1", "1) 1) \"user:42\"\n   2) (integer) 1250\n   3) (integer) 100\n   4) (integer) 1150\n   5) (integer) 1"}},
		run:     runHotKeys,
	}
}

func runHotKeys(c *client, args [][]byte) {
	n := int64(10)
	if len(args) > 1 {
		if len(args) != 3 || !fold(args[1], "COUNT") {
			c.fail(errSyntax)
			return
		}
		var ok bool
		if n, ok = integer(args[2]); !ok {
			c.fail(errNotInteger)
			return
		}
		if n < 1 {
			c.fail(errNotPositive)
			return
		}
	}
	var keys []engine.HotKey
	if hot := c.h.cfg.Hot; hot != nil {
		keys = c.ownHotKeys(hot, n)
	}
	c.array(len(keys))
	for i := range keys {
		k := &keys[i]
		c.array(5)
		c.bulk(k.Key)
		c.int(k.Rate)
		c.int(k.Admitted)
		c.int(k.Denied)
		c.int(int64(k.Parts))
	}
}

// ownHotKeys returns the busiest of the keys that the user may read by a selector that
// allows the command.
func (c *client) ownHotKeys(hot HotKeys, n int64) []engine.HotKey {
	var may []*selector
	for i := range c.user.selectors {
		switch s := &c.user.selectors[i]; {
		case !s.allowed["rl.hotkeys"]:
		case s.allKeys:
			return hot.HotKeys(int(n))
		default:
			may = append(may, s)
		}
	}
	keys := slices.DeleteFunc(hot.HotKeys(math.MaxInt), func(k engine.HotKey) bool {
		return !slices.ContainsFunc(may, func(s *selector) bool { return s.mayKey(k.Key, true, false) })
	})
	return keys[:min(n, int64(len(keys)))]
}
