// Package keys has the commands about the keys that have state: RL.SCAN and RL.RESETMATCH.
package keys

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/shard"
)

const (
	// mostVisits is the most stored keys that one RL.SCAN visits: they are in memory until the reply is written.
	mostVisits = 100_000
	// piece is how many stored keys RL.RESETMATCH visits at a time, and resets how many keys it resets in one pipeline,
	// which takes a node less than a ms. It pauses when it has worked for pauseAfter: no pause is shorter than a ms.
	piece, resets, pauseAfter = 1000, 64, time.Millisecond
)

// Config has what the commands ask.
type Config struct {
	Keys   engine.KeyLister // lists the keys of Engine
	Engine engine.Engine
}

var matchArg = table.Arg{Name: "glob", Type: "pattern", About: "as that of KEYS in Redis: `*`, `?`, `[a-z]`, " +
	"`[^a-z]`, and a backslash before a byte that stands for itself. It is about whole keys, of policies " +
	"`policy:key`"}

// Rows returns the commands.
func Rows(c Config) []table.Row {
	match := matchArg
	match.Token, match.Optional = "MATCH", true
	return []table.Row{{Command: table.Command{
		Name: "rl.scan", Arity: -2, Flags: []string{"readonly"}, ACL: []string{"@keyspace"}, Group: "ratelimit",
		Since: "0.1.0", Complexity: "O(N) with N the number of visited keys",
		Summary: "Lists keys that have state, a part at a time",
		Args: []table.Arg{{Name: "cursor", Type: "string",
			About: "0 to begin, then what the reply before it says"}, match,
			{Name: "n", Type: "integer", Token: "COUNT", Optional: true,
				About: "about how many stored keys to visit, 1 to 100000; default 10"}},
		Replies: "An array as of SCAN: the next cursor, which is 0 at the end, and an array of keys. A key that has " +
			"state during the whole scan is listed at least once; one may come several times, also after its state " +
			"has ended, for a second. Keys of shadows are listed as the keys themselves, keys that the user may " +
			"not read are left out. The scan goes from node to node. If a node does not answer it is the error " +
			"UNAVAILABLE: a retry with the same cursor goes on, also after a failover. If slots of a Redis Cluster " +
			"have moved to another master since the scan began, it is an error that says to begin again; of slots " +
			"that are just moving, keys may be missed. Without backends, a reply has at least a 256th of the keys.",
		Examples: []table.Example{{Line: "RL.SCAN 0 MATCH user:* COUNT 1000",
			Reply: "1) \"0\"\n2) 1) \"user:42\""}},
	}, RunBy: c.scan, Barrier: true}, {Command: table.Command{
		Name: "rl.resetmatch", Arity: 2, Flags: []string{"write", "admin"}, Group: "ratelimit",
		Since: "0.1.0", Complexity: "O(N) with N the number of stored keys, in pieces",
		Summary: "Deletes the state of all keys that match a pattern",
		Args:    []table.Arg{matchArg},
		Replies: "Integer: the number of keys that were reset, as by RL.RESET. Keys that the user may not write are " +
			"left out. Nodes answer others in between. Keys that come while it runs may be reset or not. " +
			"It ends when the client closes its connection. If a node does not answer, it is the error UNAVAILABLE; " +
			"keys that are already reset stay reset.",
		Examples: []table.Example{{Line: "RL.RESETMATCH user:*", Reply: "(integer) 1"}},
	}, RunBy: c.resetMatch, Barrier: true}}
}

// checkPattern returns the error about a pattern that is empty or ends too soon, or "".
func checkPattern(pattern []byte) string {
	msg, set := "", false
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\':
			if i++; i == len(pattern) {
				msg = ": nothing follows its last \\"
			}
		case pattern[i] == '[' || set && pattern[i] == ']':
			set = pattern[i] == '['
		}
	}
	switch {
	case len(pattern) == 0:
		msg = ": it is empty"
	case set:
		msg = ": a [ has no ]"
	}
	if msg == "" {
		return ""
	}
	return "ERR invalid pattern" + msg + "; it was " + word.Literal(pattern)
}

// scan is RL.SCAN.
func (c *Config) scan(w reply.Writer, args [][]byte, by table.Caller) string {
	pattern, visits := "*", int64(10)
	for words, seen := args[2:], ""; len(words) > 0; words = words[2:] {
		name, value := strings.ToUpper(string(words[0][:min(len(words[0]), 5)])), []byte(nil)
		if len(words) > 1 {
			value = words[1]
		}
		switch is := word.Is(words[0], name); {
		case !is || name != "MATCH" && name != "COUNT":
			return reply.UnknownOption(words[0], []string{"MATCH", "COUNT"})
		case strings.Contains(seen, name):
			return reply.OptionTwice(name)
		case value == nil:
			return reply.OptionWithoutValue(name)
		case name == "MATCH":
			if msg := checkPattern(value); msg != "" {
				return msg
			}
			pattern = string(value)
		default:
			var ok bool
			if visits, ok = word.Integer(value); !ok || visits < 1 || visits > mostVisits {
				return "ERR count must be an integer between 1 and 100000; it was " + word.Literal(value)
			}
		}
		seen += name
	}
	keys := map[string]bool{}
	next, err := c.visit(string(args[1]), int(visits), pattern, "rl.scan", by.User, func(key []byte, _ bool) {
		keys[string(key)] = true
	})
	if err == engine.ErrCursor { //nolint:errorlint // it is the constant
		return err.Error() + "; it was " + word.Literal(args[1])
	} else if err != nil {
		return err.Error()
	}
	w.Array(2)
	w.Text(next)
	w.Texts(slices.Sorted(maps.Keys(keys)))
	return ""
}

// visit visits stored keys from a cursor on, and calls found with the keys of clients that match a pattern, and that
// the user may use by the command, and says which are found by their shadows. It returns the next cursor.
func (c *Config) visit(cursor string, visits int, pattern, command string, u *acl.User,
	found func(key []byte, shadow bool)) (next string, err error) {
	return c.Keys.Scan(cursor, visits, func(name []byte) {
		key, shadow := shard.ClientKey(name)
		if glob.Match(pattern, key) && u.MayUse(command, key, true, command != "rl.scan") {
			found(key, shadow)
		}
	})
}

// resetMatch is RL.RESETMATCH. It looks for shadows first, and resets the keys with them, so that a key counts once.
func (c *Config) resetMatch(w reply.Writer, args [][]byte, by table.Caller) string {
	if msg := checkPattern(args[1]); msg != "" {
		return msg
	}
	sum, worked := int64(0), time.Duration(0) // worked: since the last pause
	for _, shadows := range [...]bool{true, false} {
		for cursor, over := "0", false; !over && !w.Closing(); over = cursor == "0" {
			keys := map[string]bool{}
			add := func(key []byte, shadow bool) {
				if shadow == shadows {
					keys[string(key)] = true
				}
			}
			next, err := c.visit(cursor, piece, string(args[1]), "rl.resetmatch", by.User, add)
			for some := range slices.Chunk(slices.Sorted(maps.Keys(keys)), resets) {
				if err != nil || w.Closing() {
					break
				}
				began := time.Now()
				var done int64
				done, err = c.reset(some, shadows)
				sum += done
				if worked += time.Since(began); worked >= pauseAfter {
					time.Sleep(min(worked, time.Second)) // so that half of the time is that of others
					worked = 0
				}
			}
			if err != nil {
				return err.Error()
			}
			cursor = next
		}
	}
	w.Int(sum)
	return ""
}

// reset resets keys, and their shadows if there may be any, and returns how many had state.
func (c *Config) reset(keys []string, shadows bool) (done int64, err error) {
	var p engine.Pipeline
	for _, key := range keys {
		p.AddBoth(engine.OpReset, []byte(key))
		if !shadows {
			p.Truncate(len(p.Requests) - 1)
		}
	}
	c.Engine.Do(&p)
	for of := range slices.Chunk(p.Results, len(p.Results)/len(keys)) {
		reset := false
		for i := range of {
			if of[i].Err != nil {
				return done, of[i].Err
			}
			reset = reset || of[i].Reset
		}
		if reset {
			done++
		}
	}
	return done, nil
}
