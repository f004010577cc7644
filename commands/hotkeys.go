package commands

import (
	"math"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// hotKeysRow returns RL.HOTKEYS.
func hotKeysRow() row {
	return row{Command: table.Command{
		Name: "rl.hotkeys", Arity: -1, Flags: []string{"readonly"}, Group: "ratelimit", Since: "0.1.0",
		Cost:    "O(N*log(N)) with N the number of keys that this proxy tracks, at most 1,024, and with FLEET those that other proxies note, at most 100 of each",
		Summary: "Lists the busiest keys seen by this proxy, or by all proxies of the same nodes",
		Args: []table.Arg{
			{
				Name: "order", Type: "oneof", Token: "BY", Optional: true, About: "what comes first: the keys with the most decisions per second, or with the most denials per second; default RATE",
				Args: []table.Arg{{Name: "rate", Type: "pure-token", Token: "RATE"}, {Name: "denied", Type: "pure-token", Token: "DENIED"}},
			},
			{Name: "n", Type: "integer", Token: "COUNT", Optional: true, About: "the most keys to list; default 10"},
			{Name: "fleet", Type: "pure-token", Token: "FLEET", Optional: true, About: "add up what all proxies of the same nodes see, instead of this one alone"},
		},
		Replies: "Array with an element for each key that the user may read. In RESP2 it is an array: key, rate, admitted, denied, shards. In RESP3 it is " +
			"a map, in which these are followed by denied-rate, fail-policy, limit, remaining, proxies, shadow-denied, lapsed and overrun. rate and denied-rate are decisions and denials per second, smoothed over 10 s " +
			"(docs/hot-keys.md says how) and rounded; admitted, denied and fail-policy are totals since the key was last among the busiest, where fail-policy are answers by a FAIL " +
			"policy, which are neither admitted nor denied; limit and remaining are as last answered, remaining -1 if a FAIL policy answered; proxies is how many proxies were added up, 1 without FLEET: " +
			"with FLEET it is fewer than there are if nodes are away or proxies have no busy keys; shadow-denied is a total of what SHADOW would have denied: " +
			"decisions with SHADOW are in rate, but neither admitted nor denied. So are answers to an id that was known (ONCE, RL.RESERVE, RL.ACQUIRE), and of a key that " +
			"had room when another key of the same question denied. lapsed is a total of reservations and leases of RL.ACQUIRE that lapsed, overrun one of the units that RL.SETTLE charged beyond those held.",
		Examples: []table.Example{{Line: "RL.HOTKEYS COUNT 1", Reply: "1) 1) \"user:42\"\n   2) (integer) 1250\n   3) (integer) 100\n   4) (integer) 1150\n   5) (integer) 1"}},
	},
		run: runHotKeys,
	}
}

// hotKeysOptions are the options of RL.HOTKEYS.
type hotKeysOptions struct {
	by    observe.Order
	count int64
	fleet bool
}

func runHotKeys(c *client, args [][]byte) {
	o, msg := parseHotKeys(args[1:])
	if msg != "" {
		c.Error(msg)
		return
	}
	var keys []observe.HotKey
	proxies := 1
	if o.fleet {
		keys, proxies = c.h.cfg.AllKeys()
	} else {
		keys = c.h.cfg.Observer.HotKeys(math.MaxInt)
	}
	keys = c.ownKeys(keys)
	observe.Sort(keys, o.by)
	keys = keys[:min(o.count, int64(len(keys)))]
	c.Array(len(keys))
	for i := range keys {
		c.hotKey(&keys[i], proxies)
	}
}

// hotKey writes a key: in RESP2 an array of those fields that come first.
func (c *client) hotKey(k *observe.HotKey, proxies int) {
	rate := int64(math.Round(k.Rate))
	if c.Proto() < 3 {
		c.Array(5)
		c.Bulk(k.Key)
		for _, n := range []int64{rate, k.Admitted, k.Denied, int64(k.Shards)} {
			c.Int(n)
		}
		return
	}
	numbers := []struct {
		name  string
		value int64
	}{
		{"rate", rate}, {"admitted", k.Admitted}, {"denied", k.Denied}, {"shards", int64(k.Shards)},
		{"denied-rate", int64(math.Round(k.DeniedRate))}, {"fail-policy", k.ByFail}, {"limit", k.Limit}, {"remaining", k.Remaining},
		{"proxies", int64(proxies)}, {"shadow-denied", k.ShadowDenied}, {"lapsed", k.Lapsed}, {"overrun", k.Overrun},
	}
	c.Map(1 + len(numbers))
	c.Text("key")
	c.Bulk(k.Key)
	for _, f := range numbers {
		c.Text(f.name)
		c.Int(f.value)
	}
}

// parseHotKeys parses the words after RL.HOTKEYS. It returns the options, or an error reply.
func parseHotKeys(words [][]byte) (o hotKeysOptions, msg string) {
	o.count = 10
	all := []string{"BY", "COUNT", "FLEET"}
	left := slices.Clone(all) // the options that were not given yet
	for len(words) > 0 {
		i := slices.IndexFunc(all, func(name string) bool { return word.Is(words[0], name) })
		if i < 0 {
			return o, unknownOption(words[0], left)
		}
		name := all[i]
		at := slices.Index(left, name)
		if at < 0 {
			return o, reply.ErrSyntax + ": option " + name + " is given twice"
		}
		left = slices.Delete(left, at, at+1)
		if name == "FLEET" {
			o.fleet, words = true, words[1:]
			continue
		}
		if len(words) == 1 {
			return o, reply.ErrSyntax + ": option " + name + " has no value"
		}
		if msg = o.set(name, words[1]); msg != "" {
			return o, msg + "; it was " + word.Literal(words[1])
		}
		words = words[2:]
	}
	return o, ""
}

// set sets the option with that name. It returns the beginning of an error reply, or "".
func (o *hotKeysOptions) set(name string, value []byte) string {
	if name == "BY" {
		switch {
		case word.Is(value, "RATE"):
			o.by = observe.ByRate
		case word.Is(value, "DENIED"):
			o.by = observe.ByDenied
		default:
			return reply.ErrSyntax + ": BY must be RATE or DENIED"
		}
		return ""
	}
	var ok bool
	switch o.count, ok = word.Integer(value); {
	case !ok:
		return reply.ErrNotInteger
	case o.count < 1:
		return reply.ErrNotPositive
	}
	return ""
}

// unknownOption returns the error about a word that is none of the options left.
func unknownOption(w []byte, left []string) string {
	expected := "nothing more"
	if last := len(left) - 1; last == 0 {
		expected = left[0]
	} else if last > 0 {
		expected = strings.Join(left[:last], ", ") + " or " + left[last]
	}
	return reply.ErrSyntax + ": unknown option " + word.Literal(w) + "; expected " + expected
}

// ownKeys returns those keys that the user may read by a selector that allows RL.HOTKEYS. It
// uses the memory of keys.
func (c *client) ownKeys(keys []observe.HotKey) []observe.HotKey {
	if c.user.MayReadAll("rl.hotkeys") {
		return keys
	}
	return slices.DeleteFunc(keys, func(k observe.HotKey) bool {
		return !c.user.MayUse("rl.hotkeys", k.Key, true, false)
	})
}
