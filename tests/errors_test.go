package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	wrongLimit   = "ERR limit must be an integer between 1 and 1000000000000; it was "
	wrongWindow  = "ERR invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d; it was "
	wrongCost    = "ERR cost must be an integer between 0 and 1000000000000; it was "
	wrongShards  = "ERR shards must be an integer between 1 and 1024; it was "
	wrongBuckets = "ERR buckets must be an integer between 1 and 1000; it was "
	slideOptions = "; expected COST, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit"
)

// exactErrors has commands that must fail, each with the full text of its error. In the
// commands, two quotes stand for an empty word.
var exactErrors = []struct {
	line string
	want errReply
}{
	{"RL.SLIDE k 100.0 60", wrongLimit + "'100.0'"},
	{"RL.SLIDE k 1e3 60", wrongLimit + "'1e3'"},
	{"RL.SLIDE k 1,000 60", wrongLimit + "'1,000'"},
	{"RL.SLIDE k unlimited 60", wrongLimit + "'unlimited'"},
	{"RL.SLIDE k 100/60 60", wrongLimit + "'100/60'"},
	{"RL.SLIDE k +5 60", wrongLimit + "'+5'"},
	{"RL.SLIDE k 007 60", wrongLimit + "'007'"},
	{"RL.SLIDE k -1 60", wrongLimit + "'-1'"},
	{"RL.SLIDE k '' 60", wrongLimit + "''"},
	{"RL.COUNTER k 1e3 60", wrongLimit + "'1e3'"},
	{"RL.FIXED k 1e3 60", wrongLimit + "'1e3'"},
	{"RL.SLIDE k COST 1", wrongLimit + "'COST'"},

	{"RL.SLIDE k 100 60sec", wrongWindow + "'60sec'"},
	{"RL.SLIDE k 100 1w", wrongWindow + "'1w'"},
	{"RL.SLIDE k 100 0", wrongWindow + "'0'"},
	{"RL.SLIDE k 100 367d", wrongWindow + "'367d'"},
	{"RL.SLIDE k 100 ''", wrongWindow + "''"},
	{"RL.SLIDE k 100 COST 1", wrongWindow + "'COST'"},
	{"RL.SLIDE k 100 60 200 1m", "ERR duplicate window: 60 and 1m are the same"},
	{"RL.SLIDE k 100 60 200", "ERR syntax error: limit 200 has no window"},
	{"RL.SLIDE k 100 60 200 COST 1", "ERR syntax error: limit 200 has no window"},
	{"RL.SLIDE k 9 1 9 2 9 3 9 4 9 5 9 6 9 7 9 8 9 9", "ERR too many windows: at most 8; the limit of another was '9'"},

	{"RL.SLIDE k 100 60 NX", "ERR syntax error: unknown option 'NX'" + slideOptions},
	{"RL.SLIDE k 100 60 BUCKETS 6", "ERR syntax error: unknown option 'BUCKETS'" + slideOptions},
	{"RL.SLIDE k 100 60 1e3 1h", "ERR syntax error: unknown option '1e3'" + slideOptions},
	{"RL.SLIDE k 100 60 COST 1 ID a 200 1h", "ERR syntax error: unknown option '200'; expected ONCE, SHARDS, FAIL, SHADOW, BLOCK or AND"},
	{"RL.SLIDE k 100 60 COST 1 COST 2", "ERR syntax error: option COST is given twice"},
	{"RL.SLIDE k 100 60 COST", "ERR syntax error: option COST has no value"},
	{"RL.SLIDE k 100 60 FAIL MAYBE", "ERR syntax error: FAIL must be OPEN, CLOSED, LOCAL or ERROR; it was 'MAYBE'"},
	{"RL.SLIDE k 100 60 COST 1.5", wrongCost + "'1.5'"},
	{"RL.SLIDE k 100 60 COST 101", "ERR cost exceeds limit: the request can never be admitted; cost was 101, limit 100"},
	{"RL.SLIDE k 100 60 SHARDS 1025", wrongShards + "'1025'"},
	{"RL.COUNTER k 100 60 BUCKETS 0", wrongBuckets + "'0'"},
	{"RL.COUNTER k 100 60 BUCKETS 1001", wrongBuckets + "'1001'"},
	{"RL.COUNTER k 100 5ms BUCKETS 6", "ERR buckets must not exceed the window's milliseconds; buckets was 6, the window 5ms"},
	{"RL.HOTKEYS LIMIT", "ERR syntax error: unknown option 'LIMIT'; expected BY, COUNT or FLEET"},
	{"RL.HOTKEYS COUNT ten", "ERR value is not an integer or out of range; it was 'ten'"},

	{"CL.THROTTLE k 1e3 30 60", "Cell error: Store error: Couldn't parse as integer: 1e3"},
	{"CL.THROTTLE k 15 30", "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"},
}

// TestErrorsQuoteTheWrongWord requires the same text from both engines in both protocols.
func TestErrorsQuoteTheWrongWord(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		for _, protocol := range []string{"2", "3"} {
			c := dial(t, p.addr)
			c.do(t, "HELLO", protocol)
			for _, e := range exactErrors {
				line := words(e.line)
				for i := range line {
					line[i] = strings.ReplaceAll(line[i].(string), "''", "")
				}
				require.Equal(t, e.want, c.do(t, line...), "RESP%s: %s", protocol, e.line)
			}
			require.Equal(t, []any{}, c.do(t, "RL.INSPECT", "k"), "a wrong command was charged")
		}
	})
}

// TestQuotedWordsDoNotBreakTheProtocol sends words with line breaks, with any byte,
// and of a megabyte in every place. Each gets one error of one line, and the connection stays open.
func TestQuotedWordsDoNotBreakTheProtocol(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	strange := []string{"\r\n+OK\r\n", "\x00", string(every), strings.Repeat("\xff", 1<<20), "'; it was '", "\x1b[2J"}
	p := startProxy(t)
	c := dial(t, p.addr)
	for _, w := range strange {
		for _, command := range [][]any{
			{"RL.SLIDE", "k", w, 60},
			{"RL.SLIDE", "k", 5, w},
			{"RL.SLIDE", "k", 5, 60, w},
			{"RL.SLIDE", "k", 5, 60, "COST", w},
			{"RL.SLIDE", "k", 5, 60, "SHARDS", w},
			{"RL.SLIDE", "k", 5, 60, "FAIL", w},
			{"RL.COUNTER", "k", 5, 60, "BUCKETS", w},
			{"RL.HOTKEYS", w},
			{"RL.HOTKEYS", "COUNT", w},
		} {
			replies := c.pipeline(t, command, []any{"PING"})
			require.IsType(t, errReply(""), replies[0], "%.40q", command)
			require.Regexp(t, `^ERR [ -~]{1,900}$`, string(replies[0].(errReply)), "%.40q", command)
			require.Equal(t, status("PONG"), replies[1])
		}
	}
	require.Equal(t, errReply(wrongLimit+`'\r\n+OK\r\n'`), c.do(t, "RL.SLIDE", "k", strange[0], 60))
	require.Equal(t, errReply(wrongLimit+"'"+strings.Repeat(`\xff`, 128)+"'... (1048576 bytes)"), c.do(t, "RL.SLIDE", "k", strange[3], 60))
	p.stop(t)
}
