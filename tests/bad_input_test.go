package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The beginnings of errors on which clients may match. The wrong word follows.
const (
	errSyntax  = errReply("ERR syntax error")
	errLimit   = errReply("ERR limit must be an integer between 1 and 1000000000000")
	errWindow  = errReply("ERR invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d")
	errTwice   = errReply("ERR duplicate window")
	errMany    = errReply("ERR too many windows: at most 8")
	errCost    = errReply("ERR cost must be an integer between 0 and 1000000000000")
	errNever   = errReply("ERR cost exceeds limit: the request can never be admitted")
	errShards  = errReply("ERR shards must be an integer between 1 and 1024")
	errBuckets = errReply("ERR buckets must be an integer between 1 and 1000")
	errFine    = errReply("ERR buckets must not exceed the window's milliseconds")
	errKey     = errReply("ERR key must be 1 to 4096 bytes")
	errSameKey = errReply("ERR duplicate key")
	errGlob    = errReply("ERR no key had state, and RL.RESET takes keys, not patterns")
	errKeys    = errReply("ERR too many keys: at most 8")
	errID      = errReply("ERR id must be 1 to 64 bytes")
	errTTL     = errReply("ERR ttl must be between 1ms and the longest window")
	errLeased  = errReply("ERR ttl must be between 1ms and 366d")
	errSlots   = errReply("ERR slots must be an integer between 1 and 1000000000000")
)

// wrongArity returns the error of a command with the wrong number of words.
func wrongArity(command string) errReply {
	return errReply("ERR wrong number of arguments for '" + command + "' command")
}

// badInput has commands on the key k that must fail, each with the beginning of its error.
var badInput = []struct {
	line string
	want errReply
}{
	{"RL.SLIDE", wrongArity("rl.slide")},
	{"rl.Slide k", wrongArity("rl.slide")},
	{"RL.SLIDE k 10", wrongArity("rl.slide")},
	{"RL.COUNTER k 10", wrongArity("rl.counter")},
	{"RL.FIXED k", wrongArity("rl.fixed")},
	{"RL.RESET", wrongArity("rl.reset")},
	{"RL.INSPECT", wrongArity("rl.inspect")},
	{"RL.INSPECT k k", wrongArity("rl.inspect")},

	{"RL.SLIDE k 10 60 5", errSyntax},
	{"RL.SLIDE k 10 60 WHAT", errSyntax},
	{"RL.SLIDE k 10 60 COST", errSyntax},
	{"RL.SLIDE k 10 60 COST 1 COST 1", errSyntax},
	{"RL.SLIDE k 10 60 COST 1 cost 2", errSyntax},
	{"RL.SLIDE k 10 60 ID a ID b", errSyntax},
	{"RL.SLIDE k 10 60 FAIL OPEN FAIL OPEN", errSyntax},
	{"RL.SLIDE k 10 60 FAIL MAYBE", errSyntax},
	{"RL.SLIDE k 10 60 COST 1 20 70", errSyntax},
	{"RL.SLIDE k 10 60 BUCKETS 10", errSyntax},
	{"RL.SLIDE k 10 60 STRICT", errSyntax},
	{"RL.FIXED k 10 60 BUCKETS 10", errSyntax},
	{"RL.COUNTER k 10 60 STRICT STRICT", errSyntax},
	{"RL.COUNTER k 10 60 BUCKETS 1 BUCKETS 1", errSyntax},

	{"RL.SLIDE k 0 60", errLimit},
	{"RL.SLIDE k -1 60", errLimit},
	{"RL.SLIDE k 1000000000001 60", errLimit},
	{"RL.SLIDE k 99999999999999999999 60", errLimit},

	{"RL.SLIDE k x 60", errLimit},
	{"RL.SLIDE k 1e3 60", errLimit},
	{"RL.SLIDE k COST 1", errLimit},

	{"RL.SLIDE k 10 COST 1", errWindow},
	{"RL.SLIDE k 10 0", errWindow},
	{"RL.SLIDE k 10 -1", errWindow},
	{"RL.SLIDE k 10 0ms", errWindow},
	{"RL.SLIDE k 10 367d", errWindow},
	{"RL.SLIDE k 10 60x", errWindow},
	{"RL.SLIDE k 10 1.5s", errWindow},
	{"RL.SLIDE k 10 060", errWindow},
	{"RL.SLIDE k 10 +60", errWindow},
	{"RL.SLIDE k 10 99999999999999999999d", errWindow},

	{"RL.SLIDE k 10 60 20 60s", errTwice},
	{"RL.SLIDE k 10 60 20 1m COST 5", errTwice},
	{"RL.SLIDE k 10 1 10 2 10 3 10 4 10 5 10 6 10 7 10 8 10 9", errMany},

	{"RL.SLIDE k 10 60 COST -1", errCost},
	{"RL.SLIDE k 10 60 COST x", errCost},
	{"RL.SLIDE k 10 60 COST 1000000000001", errCost},
	{"RL.SLIDE k 10 60 COST 11", errNever},
	{"RL.SLIDE k 10 60 5 70 COST 6", errNever},

	{"RL.SLIDE k 10 60 SHARDS 0", errShards},
	{"RL.SLIDE k 10 60 SHARDS 1025", errShards},
	{"RL.COUNTER k 10 60 BUCKETS 0", errBuckets},
	{"RL.COUNTER k 10 60 BUCKETS 1001", errBuckets},
	{"RL.COUNTER k 10 5ms BUCKETS 6", errFine},

	{"RL.SLIDE k 10 60 ONCE", errSyntax},
	{"RL.SLIDE k 10 60 ONCE " + id65, errID},
	{"RL.SLIDE k 10 60 ONCE a AND l 10 60", errSyntax},
	{"RL.SLIDE k 10 60 AND l 10 60 ONCE a", errSyntax},
	{"RL.SLIDE k 10 60 AND", errSyntax},
	{"RL.SLIDE k 10 60 AND l", errSyntax},
	{"RL.SLIDE k 10 60 AND l 10", errSyntax},
	{"RL.SLIDE k 10 60 AND l 10 60 COST 11", errNever},
	{"RL.SLIDE k 10 60 AND l 10 60 AND k 5 60", errSameKey},
	{"RL.FIXED k 10 60 AND k 10 60 SHADOW", errSameKey},
	{"RL.COUNTER k 1 1 AND 2 1 1 AND 3 1 1 AND 4 1 1 AND 5 1 1 AND 6 1 1 AND 7 1 1 AND 8 1 1 AND 9 1 1", errKeys},

	{"RL.RESERVE k 10 60 COST 1", wrongArity("rl.reserve")},
	{"RL.RESERVE k 10 60 COST 1 TTL 5", errSyntax},
	{"RL.RESERVE k 10 60 ID a TTL 5", errSyntax},
	{"RL.RESERVE k 10 60 COST 1 ID a SHARDS 2", errSyntax},
	{"RL.RESERVE k 10 60 COST 1 ID a LAPSE LATER", errSyntax},
	{"RL.RESERVE k 10 60 COST 11 ID a", errNever},
	{"RL.RESERVE k 10 60 COST -1 ID a", errCost},
	{"RL.RESERVE k 10 60 COST 1 ID " + id65, errID},
	{"RL.RESERVE k 10 60 COST 1 ID a TTL 61", errTTL},
	{"RL.RESERVE k 10 60 COST 1 ID a TTL 0", errTTL},
	{"RL.HOLD what k COST 1 ID a", "ERR no such policy 'what'"},
	{"RL.HOLD what k COST 1 ID", wrongArity("rl.hold")},
	{"RL.SETTLE k a", wrongArity("rl.settle")},
	{"RL.SETTLE k a x", errCost},
	{"RL.SETTLE k a -1", errCost},
	{"RL.SETTLE k a 1000000000001", errCost},
	{"RL.SETTLE k " + id65 + " 1", errID},

	{"RL.SLIDE k 10 60 BLOCK 0", "ERR block must be an integer between 1 and 3600000; it was '0'"},
	{"RL.SLIDE k 10 60 BLOCK 10 AND k 10 60", "ERR BLOCK and AND exclude each other"},
	{"RL.ACQUIRE k 10 ID a BLOCK -1", "ERR block must be an integer between 1 and 3600000; it was '-1'"},
	{"RL.FIXED k 10 day TZ Nowhere", "ERR TZ must be a time zone of the IANA database"},
	{"RL.FIXED k 10 60 TZ UTC", "ERR TZ needs a window that is a day, a week, a month or a year; it was 'UTC'"},
	{"RL.FIXED k 10 fortnight", "ERR invalid window"},

	{"RL.ACQUIRE k 10 ID", wrongArity("rl.acquire")},
	{"RL.ACQUIRE k 10 COST 1", errSyntax},
	{"RL.ACQUIRE k 0 ID a", errSlots},
	{"RL.ACQUIRE k x ID a", errSlots},
	{"RL.ACQUIRE k 1000000000001 ID a", errSlots},
	{"RL.ACQUIRE k 10 ID a COST 11", errNever},
	{"RL.ACQUIRE k 10 ID a TTL 367d", errLeased},
	{"RL.ACQUIRE k 10 ID " + id65, errID},
	{"RL.ACQUIRE k 10 ID a CONN TTL 999ms", "ERR ttl must be at least 1s with CONN"},
	{"RL.RENEW k a TTL 0", errLeased},
	{"RL.RENEW k a 5", errSyntax},
	{"RL.RENEW k " + id65, errID},
	{"RL.RELEASE k", wrongArity("rl.release")},
	{"RL.RELEASE k a b " + id65, errID},
}

// id65 is an id that is too long by a byte.
var id65 = strings.Repeat("i", 65)

// TestBadCommandsFailAloneAndChargeNothing sends each bad command alone, and between good
// ones in a pipeline. The bad command gets its error, the others get their replies, and
// nothing is charged.
func TestBadCommandsFailAloneAndChargeNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for i, bad := range badInput {
			requireError(t, bad.want, c.do(t, words(bad.line)...), bad.line)
			good := words(fmt.Sprintf("RL.SLIDE n:%d 1000 1d", i)) // no key is hot
			replies := c.pipeline(t, good, words(bad.line), good, words("PING"))
			for j, want := range map[int]int64{0: 999, 2: 998} {
				d, err := toDecision(replies[j])
				require.NoError(t, err, bad.line)
				require.Equal(t, want, d.remaining, bad.line)
			}
			requireError(t, bad.want, replies[1], bad.line)
			require.Equal(t, status("PONG"), replies[3], bad.line)
		}
		require.Equal(t, []any{}, c.do(t, "RL.INSPECT", "k"), "a bad command was charged")
	})
}

// requireError requires an error that begins with want.
func requireError(t *testing.T, want errReply, got any, line string) {
	t.Helper()
	e, ok := got.(errReply)
	require.True(t, ok && strings.HasPrefix(string(e), string(want)), "%s: %q, not %q", line, got, want)
}

// TestKeysOfAnyBytesAreKeptApart uses keys with braces, percent signs, control characters
// and invalid UTF-8. Each has a state of its own, whatever its stored key looks like.
func TestKeysOfAnyBytesAreKeptApart(t *testing.T) {
	t.Parallel()
	keys := []string{
		"{", "}", "{}", "{a}", "a{b}c", "%7B", "%", "%p1", "a}%p1", "{a}%p1", "\x00", "a\x00b", "\r\n", "a b", "a\nb",
		"\xff\xfe", "*3\r\n$3\r\nSET", strings.Repeat("k", 4096), strings.Repeat("{", 4096), "é", "rl:{a}",
	}
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for i, key := range keys {
			for _, command := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED"} {
				limit := int64(10 + i)
				d, err := toDecision(c.do(t, command, key, limit, "365d", "ID", key))
				require.NoError(t, err)
				require.Equal(t, decision{1, limit, limit - 1, 0, d.resetAfter}, d, "%s %q", command, key)
			}
		}
		for _, key := range keys {
			require.Len(t, c.do(t, "RL.INSPECT", key), 3, "%q", key)
			require.Equal(t, int64(1), c.do(t, "RL.RESET", key), "%q", key)
			if strings.Contains(key, "*") {
				requireError(t, errGlob, c.do(t, "RL.RESET", key), key)
				continue
			}
			require.Equal(t, int64(0), c.do(t, "RL.RESET", key), "%q", key)
		}
	})
}

// TestKeysOfWrongLengthAreRefused sends keys just outside the bounds, and one of a
// megabyte. The commands around them are answered.
func TestKeysOfWrongLengthAreRefused(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for _, size := range []int{0, 4097, 1 << 20} {
			key, want := strings.Repeat("k", size), errReply(fmt.Sprintf("%s; it had %d", errKey, size))
			for _, command := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED"} {
				replies := c.pipeline(t, []any{"PING"}, []any{command, key, 10, 60}, []any{"ECHO", "after"})
				require.Equal(t, []any{status("PONG"), want, "after"}, replies, "%s, %d bytes", command, size)
			}
			require.Equal(t, want, c.do(t, "RL.RESET", key))
			require.Equal(t, want, c.do(t, "RL.INSPECT", key))
		}
	})
}

// TestUnknownCommandsAreAnsweredAsByRedis checks the text that clients match on, also when
// the arguments hold line breaks or are very long.
func TestUnknownCommandsAreAnsweredAsByRedis(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	c := dial(t, p.addr)
	require.Equal(t, errReply("ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "), c.do(t, "NOPE", "a", "b"))
	reply := fmt.Sprint(c.do(t, "NOPE", "a\r\n+OK\r\n", strings.Repeat("x", 1<<20)))
	require.True(t, strings.HasPrefix(reply, "ERR unknown command 'NOPE', with args beginning with: 'a"), reply)
	require.Less(t, len(reply), 1000)
	require.Equal(t, status("PONG"), c.do(t, "PING"))
	p.stop(t)
}
