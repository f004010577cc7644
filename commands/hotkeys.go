package commands

import (
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// hotKeysRow returns RL.HOTKEYS.
func hotKeysRow() row {
	return row{Command: table.Command{
		Name: "rl.hotkeys", Arity: -1, Flags: []string{"readonly"}, Group: "ratelimit", Since: "0.1.0",
		Cost:     "O(N*log(N)) with N the number of keys that this proxy tracks",
		Summary:  "Lists the busiest keys seen by this proxy",
		Args:     []table.Arg{{Name: "n", Type: "integer", Token: "COUNT", Optional: true, About: "the most keys to list; default 10"}},
		Replies:  "Array, the busiest key first. Each element is an array: key, decisions per second, admitted, denied, shards.",
		Examples: []table.Example{{Line: "RL.HOTKEYS COUNT 1", Reply: "1) 1) \"user:42\"\n   2) (integer) 1250\n   3) (integer) 100\n   4) (integer) 1150\n   5) (integer) 1"}},
	},
		run: runHotKeys,
	}
}

func runHotKeys(c *client, args [][]byte) {
	n, msg := hotKeysCount(args[1:])
	if msg != "" {
		c.Error(msg)
		return
	}
	keys := c.ownHotKeys(n)
	c.Array(len(keys))
	for i := range keys {
		k := &keys[i]
		c.Array(5)
		c.Bulk(k.Key)
		c.Int(k.Rate)
		c.Int(k.Admitted)
		c.Int(k.Denied)
		c.Int(int64(k.Shards))
	}
}

// hotKeysCount parses the words after RL.HOTKEYS. It returns the value of COUNT, or an error
// reply.
func hotKeysCount(words [][]byte) (int64, string) {
	switch {
	case len(words) == 0:
		return 10, ""
	case !word.Is(words[0], "COUNT"):
		return 0, reply.ErrSyntax + ": unknown option " + word.Literal(words[0]) + "; expected COUNT"
	case len(words) == 1:
		return 0, reply.ErrSyntax + ": option COUNT has no value"
	}
	n, ok := word.Integer(words[1])
	switch {
	case len(words) > 2:
		return 0, reply.ErrSyntax + ": unknown option " + word.Literal(words[2]) + "; expected nothing more"
	case !ok:
		return 0, reply.ErrNotInteger + "; it was " + word.Literal(words[1])
	case n < 1:
		return 0, reply.ErrNotPositive + "; it was " + word.Literal(words[1])
	}
	return n, ""
}

// ownHotKeys returns the n busiest of the keys that the user may read by a selector that
// allows RL.HOTKEYS.
func (c *client) ownHotKeys(n int64) []observe.HotKey {
	if c.user.MayReadAll("rl.hotkeys") {
		return c.h.cfg.Observer.HotKeys(int(n))
	}
	keys := slices.DeleteFunc(c.h.cfg.Observer.HotKeys(math.MaxInt), func(k observe.HotKey) bool {
		return !c.user.MayUse("rl.hotkeys", k.Key, true, false)
	})
	return keys[:min(n, int64(len(keys)))]
}
