// Package hotkeys has the command RL.HOTKEYS.
//
// Reading order: hotkeys.go (this file), options.go.
package hotkeys

import (
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// Config has the sources of the keys that RL.HOTKEYS shows.
type Config struct {
	// Observer has the busiest keys of this proxy.
	Observer *observe.Observer

	// FleetKeys returns the busiest keys of all proxies together and from how many proxies they
	// are. The caller may keep and change the slice. Several sessions may call it at once.
	FleetKeys func() (keys []observe.HotKey, proxies int)
}

// Row returns RL.HOTKEYS.
func Row(c Config) table.Row {
	return table.Row{Command: table.Command{
		Name: "rl.hotkeys", Arity: -1, Flags: []string{"readonly"}, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(N*log(N)) with N the number of keys that this proxy tracks, at most 1,024, and with FLEET " +
			"those that other proxies note, at most 100 of each",
		Summary: "Lists the busiest keys seen by this proxy, or by all proxies of the same nodes",
		Args: []table.Arg{
			{
				Name: "order", Type: "oneof", Token: "BY", Optional: true,
				About: "what comes first: the keys with the most decisions per second, or with the most denials per " +
					"second; default RATE",
				Args: []table.Arg{{Name: "rate", Type: "pure-token", Token: "RATE"},
					{Name: "denied", Type: "pure-token", Token: "DENIED"}},
			},
			{Name: "n", Type: "integer", Token: "COUNT", Optional: true, About: "the most keys to list; default 10"},
			{Name: "fleet", Type: "pure-token", Token: "FLEET", Optional: true,
				About: "add up what all proxies of the same nodes see, instead of this one alone"},
		},
		Replies: "Array with an element for each key that the user may read. In RESP2 it is an array of the first " +
			"five fields, in RESP3 a map of all of them. Totals " +
			"count from when the key was last among the busiest:\n\n" +
			"- `key`.\n" +
			"- `rate`: decisions per second, smoothed over 10 s (docs/hot-keys.md says how) and rounded.\n" +
			"- `admitted`, `denied`: totals, which include requests with COST 0. Neither has answers by a FAIL " +
			"policy (but for denials by FAIL LOCAL, which are due to the limit), decisions with SHADOW, answers to " +
			"an id that was known (ONCE, RL.RESERVE, RL.ACQUIRE), and answers of a key that " +
			"had room when another key of the same request denied; `rate` has all of these.\n" +
			"- `shards`: their number.\n" +
			"- `denied-rate`: denials per second, smoothed likewise.\n" +
			"- `fail-policy`: a total of answers by a FAIL policy, with denials by FAIL LOCAL.\n" +
			"- `limit`, `remaining`: as last answered; remaining is -1 if a FAIL policy answered.\n" +
			"- `proxies`: how many proxies were added up, 1 without FLEET; fewer than there are if nodes are away or " +
			"proxies have no busy keys.\n" +
			"- `shadow-denied`: a total of what SHADOW would have denied.\n" +
			"- `lapsed`: a total of reservations and leases of RL.ACQUIRE that lapsed.\n" +
			"- `overrun`: a total of units that RL.SETTLE charged beyond those held.\n" +
			"- `drawn`: how many of `admitted` were admitted from an [advance](hot-keys.md#advance), without asking " +
			"a node.\n" +
			"- `refused`: how many of `fail-policy` were denied by FAIL CLOSED or got an error by FAIL ERROR.",
		Examples: []table.Example{{Line: "RL.HOTKEYS COUNT 1",
			Reply: "1) 1) \"user:42\"\n   2) (integer) 1250\n   3) (integer) 100\n   4) (integer) 1150\n   5) " +
				"(integer) 1"}},
	},
		RunBy: c.run, Barrier: true,
	}
}

func (c *Config) run(w reply.Writer, args [][]byte, by table.Caller) string {
	o, msg := parse(args[1:])
	if msg != "" {
		return msg
	}
	var keys []observe.HotKey
	proxies := 1
	if o.fleet {
		keys, proxies = c.FleetKeys()
	} else {
		keys = c.Observer.HotKeys(math.MaxInt)
	}
	keys = readable(keys, by.User)
	observe.Sort(keys, o.by)
	keys = keys[:min(o.count, int64(len(keys)))]
	w.Array(len(keys))
	for i := range keys {
		write(w, &keys[i], proxies)
	}
	return ""
}

// readable returns those keys that the user may read by a selector that allows RL.HOTKEYS. It uses the memory of keys.
func readable(keys []observe.HotKey, u *acl.User) []observe.HotKey {
	if u.MayReadAll("rl.hotkeys") {
		return keys
	}
	return slices.DeleteFunc(keys, func(k observe.HotKey) bool {
		return !u.MayUse("rl.hotkeys", k.Key, true, false)
	})
}

// write writes a key: in RESP2 an array of those fields that come first.
func write(w reply.Writer, k *observe.HotKey, proxies int) {
	rate := int64(math.Round(k.Rate))
	if w.Proto() < 3 {
		w.Array(5)
		w.Bulk(k.Key)
		for _, n := range []int64{rate, k.Admitted, k.Denied, int64(k.Shards)} {
			w.Int(n)
		}
		return
	}
	numbers := []struct {
		name  string
		value int64
	}{
		{"rate", rate}, {"admitted", k.Admitted}, {"denied", k.Denied}, {"shards", int64(k.Shards)},
		{"denied-rate", int64(math.Round(k.DeniedRate))}, {"fail-policy", k.ByFail}, {"limit", k.Limit},
		{"remaining", k.Remaining},
		{"proxies", int64(proxies)}, {"shadow-denied", k.ShadowDenied}, {"lapsed", k.Lapsed}, {"overrun", k.Overrun},
		{"drawn", k.Drawn}, {"refused", k.Refused},
	}
	w.Map(1 + len(numbers))
	w.Text("key")
	w.Bulk(k.Key)
	for _, f := range numbers {
		w.Text(f.name)
		w.Int(f.value)
	}
}
