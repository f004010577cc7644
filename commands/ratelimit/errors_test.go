package ratelimit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

func TestErrorsQuoteTheWordAndSayWhatBelongsThere(t *testing.T) {
	const (
		limit  = "ERR limit must be an integer between 1 and 1000000000000; it was "
		window = "ERR invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d; it was "
		cost   = "ERR cost must be an integer between 0 and 1000000000000; it was "
		syntax = "ERR syntax error: "
	)
	for line, want := range map[string]string{
		"RL.SLIDE k 100.0 60":               limit + "'100.0'",
		"RL.SLIDE k 1e3 60":                 limit + "'1e3'",
		"RL.SLIDE k 1,000 60":               limit + "'1,000'",
		"RL.SLIDE k unlimited 60":           limit + "'unlimited'",
		"RL.SLIDE k 100/60 60":              limit + "'100/60'",
		"RL.SLIDE k +5 60":                  limit + "'+5'",
		"RL.SLIDE k 007 60":                 limit + "'007'",
		"RL.SLIDE k -1 60":                  limit + "'-1'",
		"RL.SLIDE k 0 60":                   limit + "'0'",
		`RL.SLIDE k "" 60`:                  limit + "''",
		"RL.SLIDE k 99999999999999999999 1": limit + "'99999999999999999999'",
		"RL.SLIDE k COST 1":                 limit + "'COST'",
		"RL.COUNTER k 100/m 60":             limit + "'100/m'",
		"RL.FIXED k none 60":                limit + "'none'",
		"RL.SLIDE k 5 60 0 70":              limit + "'0'",

		"RL.SLIDE k 5 60sec":                window + "'60sec'",
		"RL.SLIDE k 5 1w":                   window + "'1w'",
		"RL.SLIDE k 5 0":                    window + "'0'",
		"RL.SLIDE k 5 367d":                 window + "'367d'",
		"RL.SLIDE k 5 1M":                   window + "'1M'",
		`RL.SLIDE k 5 ""`:                   window + "''",
		"RL.SLIDE k 5 COST 1":               window + "'COST'",
		"RL.FIXED k 5 60 6 1y":              strings.Replace(window, "366d", "366d, or day, week, month or year", 1) + "'1y'",
		"RL.SLIDE k 5 day":                  window + "'day', which only RL.FIXED has",
		"RL.FIXED k 5 60 TZ Europe/Berlin":  "ERR TZ needs a window that is a day, a week, a month or a year; it was 'Europe/Berlin'",
		"RL.FIXED k 5 day TZ Europe/Berlni": "ERR TZ must be a time zone of the IANA database, such as Europe/Berlin; it was 'Europe/Berlni'; the nearest is Europe/Berlin",
		"RL.FIXED k 5 day TZ utc":           "ERR TZ must be a time zone of the IANA database, such as Europe/Berlin; it was 'utc'; the nearest is UTC",
		"RL.FIXED k 5 day TZ":               syntax + "option TZ has no value",
		"RL.FIXED k 5 day TZ UTC TZ UTC":    syntax + "option TZ is given twice",
		"RL.FIXED k 5 day 6 Day":            "ERR duplicate window: day and Day are the same",
		"RL.SLIDE k 5 60 TZ UTC":            syntax + "unknown option 'TZ'; expected COST, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit",

		"RL.SLIDE k 5 60 5 60":                             "ERR duplicate window: 60 and 60 are the same",
		"RL.SLIDE k 5 60 6 1h 7 60000ms":                   "ERR duplicate window: 60 and 60000ms are the same",
		"RL.SLIDE k 1 1 1 2 1 3 1 4 1 5 1 6 1 7 1 8 200 9": "ERR too many windows: at most 8; the limit of another was '200'",
		"RL.SLIDE k 5 60 200":                              syntax + "limit 200 has no window",
		"RL.SLIDE k 5 60 200 COST 1":                       syntax + "limit 200 has no window",

		"RL.SLIDE k 5 60 NX":                                       syntax + "unknown option 'NX'; expected COST, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit",
		"RL.SLIDE k 5 60 1e3 70":                                   syntax + "unknown option '1e3'; expected COST, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit",
		"RL.SLIDE k 5 60 BUCKETS 2":                                syntax + "unknown option 'BUCKETS'; expected COST, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit",
		"RL.COUNTER k 5 60 NX":                                     syntax + "unknown option 'NX'; expected COST, BUCKETS, STRICT, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit",
		"RL.COUNTER k 5 60 STRICT yes":                             syntax + "unknown option 'yes'; expected COST, BUCKETS, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK or AND",
		"RL.SLIDE k 5 60 COST 1 6 70":                              syntax + "unknown option '6'; expected ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK or AND",
		"RL.SLIDE k 5 60 COST 1 ID a SHARDS 1 NX":                  syntax + "unknown option 'NX'; expected ONCE, FAIL, SHADOW, BLOCK or AND",
		"RL.SLIDE k 5 60 SHADOW COST 1 ID a SHARDS 1 NX":           syntax + "unknown option 'NX'; expected ONCE, FAIL, BLOCK or AND",
		"RL.SLIDE k 5 60 SHADOW yes":                               syntax + "unknown option 'yes'; expected COST, ID, ONCE, SHARDS, FAIL, BLOCK or AND",
		"RL.SLIDE k 5 60 SHADOW shadow":                            syntax + "option SHADOW is given twice",
		"RL.FIXED k 5 60 COST 1 ID a SHARDS 1 SHADOW FAIL OPEN NX": syntax + "unknown option 'NX'; expected TZ, ONCE, BLOCK or AND",
		"RL.SLIDE k 5 60 COST 1 cost 1":                            syntax + "option COST is given twice",
		"RL.COUNTER k 5 60 STRICT strict":                          syntax + "option STRICT is given twice",
		"RL.SLIDE k 5 60 COST":                                     syntax + "option COST has no value",
		"RL.COUNTER k 5 60 buckets":                                syntax + "option BUCKETS has no value",
		"RL.SLIDE k 5 60 FAIL MAYBE":                               syntax + "FAIL must be OPEN, CLOSED, LOCAL or ERROR; it was 'MAYBE'",

		"RL.SLIDE k 5 60 COST 1.5":      cost + "'1.5'",
		"RL.SLIDE k 5 60 COST -1":       cost + "'-1'",
		"RL.SLIDE k 5 60 COST ID x":     cost + "'ID'",
		"RL.SLIDE k 5 60 COST 6":        "ERR cost exceeds limit: the request can never be admitted; cost was 6, limit 5",
		"RL.SLIDE k 9 60 4 70 COST 5":   "ERR cost exceeds limit: the request can never be admitted; cost was 5, limit 4",
		"RL.SLIDE k 5 60 SHARDS 0":      "ERR shards must be an integer between 1 and 1024; it was '0'",
		"RL.SLIDE k 5 60 SHARDS 1025":   "ERR shards must be an integer between 1 and 1024; it was '1025'",
		"RL.COUNTER k 5 60 BUCKETS 0":   "ERR buckets must be an integer between 1 and 1000; it was '0'",
		"RL.COUNTER k 5 60 BUCKETS 1k":  "ERR buckets must be an integer between 1 and 1000; it was '1k'",
		"RL.COUNTER k 5 9ms BUCKETS 10": "ERR buckets must not exceed the window's milliseconds; buckets was 10, the window 9ms",

		`RL.SLIDE "" 5 60`: "ERR key must be 1 to 4096 bytes; it had 0",
		`RL.RESET a ""`:    "ERR key must be 1 to 4096 bytes; it had 0",
		`RL.INSPECT ""`:    "ERR key must be 1 to 4096 bytes; it had 0",

		"RL.SLIDE k 5 60 ONCE @65":                    "ERR id must be 1 to 64 bytes; it had 65",
		`RL.SLIDE k 5 60 ONCE ""`:                     "ERR id must be 1 to 64 bytes; it had 0",
		"RL.SLIDE k 5 60 ONCE":                        syntax + "option ONCE has no value",
		"RL.SLIDE k 5 60 ONCE a ONCE b":               syntax + "option ONCE is given twice",
		"RL.SLIDE k 5 60 ONCE a AND l 5 60":           syntax + "ONCE cannot be used with AND",
		"RL.SLIDE k 5 60 AND l 5 60 ONCE a":           syntax + "ONCE cannot be used with AND",
		"RL.SLIDE k 5 60 AND":                         syntax + "AND must be followed by a key, a limit and a window",
		"RL.SLIDE k 5 60 AND l 5":                     syntax + "AND must be followed by a key, a limit and a window",
		"RL.SLIDE k 5 60 6 AND l 5 60":                syntax + "limit 6 has no window",
		"RL.SLIDE k 5 60 AND AND 5 60 AND AND 5 60":   "ERR duplicate key: 'AND' is given twice",
		"RL.SLIDE k 5 60 AND l 5 60 AND k 9 9 COST 9": "ERR duplicate key: 'k' is given twice",
		"RL.SLIDE k 5 60 AND k 5 60 SHADOW":           "ERR duplicate key: 'k' is given twice",
		"RL.SLIDE k 5 60 COST 6 AND k 5 60":           "ERR duplicate key: 'k' is given twice", // before the cost
		"RL.SLIDE k 5 60 AND k 5 60 5 1m":             "ERR duplicate window: 60 and 1m are the same",
		"RL.SLIDE k 5 60 COST 6 AND l 5 60":           "ERR cost exceeds limit: the request can never be admitted; cost was 6, limit 5",
		"RL.SLIDE k 5 60 COST 6 AND l 5 0":            window + "'0'", // words before the request as a whole
		"RL.SLIDE k 5 60 AND l 5 60 AND m x 60":       limit + "'x'",
		`RL.SLIDE k 5 60 AND "" 5 60`:                 "ERR key must be 1 to 4096 bytes; it had 0",
		"RL.SLIDE 1 5 1 AND 2 5 1 AND 3 5 1 AND 4 5 1 AND 5 5 1 AND 6 5 1 AND 7 5 1 AND 8 5 1 AND it's 5 1": "ERR too many keys: at most 8; another was 'it\\'s'",

		"RL.RESERVE k 5 60 COST 1 ID":                      "ERR wrong number of arguments for 'rl.reserve' command; usage: RL.RESERVE key limit window [limit window ...] COST n ID id [TTL window] [LAPSE CHARGE|RELEASE] [FAIL OPEN|CLOSED|LOCAL|ERROR]",
		"RL.RESERVE k 5 60 COST 1 TTL 1":                   syntax + "RL.RESERVE needs COST and ID",
		"RL.RESERVE k 5 60 ID a TTL 1":                     syntax + "RL.RESERVE needs COST and ID",
		"RL.RESERVE k 5 60 COST 6 ID a":                    "ERR cost exceeds limit: the request can never be admitted; cost was 6, limit 5",
		"RL.RESERVE k 5 60 COST x ID a":                    cost + "'x'",
		"RL.RESERVE k 5 60 COST 1 ID @65":                  "ERR id must be 1 to 64 bytes; it had 65",
		`RL.RESERVE k 5 60 COST 1 ID ""`:                   "ERR id must be 1 to 64 bytes; it had 0",
		"RL.RESERVE k 5 60 5 60 COST 6 ID a":               "ERR duplicate window: 60 and 60 are the same",
		"RL.RESERVE k 5 60 COST 1 ID a TTL 61":             "ERR ttl must be between 1ms and the longest window; it was '61'",
		"RL.RESERVE k 5 60 5 1h COST 1 ID a TTL 3600001ms": "ERR ttl must be between 1ms and the longest window; it was '3600001ms'",
		"RL.RESERVE k 5 60 COST 1 ID a TTL 0":              "ERR ttl must be between 1ms and the longest window; it was '0'",
		"RL.RESERVE k 5 60 COST 1 ID a TTL soon":           "ERR ttl must be between 1ms and the longest window; it was 'soon'",
		"RL.RESERVE k 5 60 COST 1 ID a LAPSE NEVER":        syntax + "LAPSE must be CHARGE or RELEASE; it was 'NEVER'",
		"RL.RESERVE k 5 60 COST 1 ID a SHADOW":             syntax + "unknown option 'SHADOW'; expected TTL, LAPSE or FAIL",
		"RL.RESERVE k 5 60 COST 1 ID a AND l 5 60":         syntax + "unknown option 'AND'; expected TTL, LAPSE or FAIL",
		"RL.RESERVE k 5 60 COST 1 ID a ONCE b":             syntax + "unknown option 'ONCE'; expected TTL, LAPSE or FAIL",
		`RL.RESERVE "" 5 60 COST 1 ID a`:                   "ERR key must be 1 to 4096 bytes; it had 0",
		"RL.SETTLE k @65 1":                                "ERR id must be 1 to 64 bytes; it had 65",
		"RL.SETTLE k a -1":                                 cost + "'-1'",
		"RL.SETTLE k a 1000000000001":                      cost + "'1000000000001'",
		`RL.SETTLE "" a 1`:                                 "ERR key must be 1 to 4096 bytes; it had 0",
		`RL.ACQUIRE "" 5 ID a`:                             "ERR key must be 1 to 4096 bytes; it had 0",
		`RL.RENEW "" a`:                                    "ERR key must be 1 to 4096 bytes; it had 0",
		"RL.ACQUIRE k 0 ID a":                              "ERR slots must be an integer between 1 and 1000000000000; it was '0'",
		"RL.ACQUIRE k ID a b":                              "ERR slots must be an integer between 1 and 1000000000000; it was 'ID'",
		"RL.ACQUIRE k 1000000000001 ID a":                  "ERR slots must be an integer between 1 and 1000000000000; it was '1000000000001'",
		"RL.ACQUIRE k 5 COST 6 ID a":                       "ERR cost exceeds limit: the request can never be admitted; cost was 6, limit 5",
		"RL.ACQUIRE k 5 COST 1 CONN":                       syntax + "RL.ACQUIRE needs ID",
		"RL.ACQUIRE k 5 ID @65":                            "ERR id must be 1 to 64 bytes; it had 65",
		"RL.ACQUIRE k 5 ID a TTL 367d":                     "ERR ttl must be between 1ms and 366d; it was '367d'",
		"RL.ACQUIRE k 5 ID a TTL 999ms CONN":               "ERR ttl must be at least 1s with CONN; it was 999ms",
		"RL.ACQUIRE k 5 ID a CONN CONN":                    syntax + "option CONN is given twice",
		"RL.ACQUIRE k 5 60 ID a":                           syntax + "unknown option '60'; expected COST, ID, TTL, CONN, FAIL or BLOCK",
		"RL.ACQUIRE k 5 ID a SHARDS 2":                     syntax + "unknown option 'SHARDS'; expected COST, TTL, CONN, FAIL or BLOCK",
		"RL.RENEW k @65":                                   "ERR id must be 1 to 64 bytes; it had 65",
		"RL.RENEW k a TTL 0":                               "ERR ttl must be between 1ms and 366d; it was '0'",
		"RL.RENEW k a TTL":                                 syntax + "option TTL has no value",
		"RL.RENEW k a TTL 1 NX":                            syntax + "unknown option 'NX'; expected nothing more",
		"RL.RELEASE k a @65 b":                             "ERR id must be 1 to 64 bytes; it had 65",
		`RL.RELEASE "" a`:                                  "ERR key must be 1 to 4096 bytes; it had 0",

		`RL.SLIDE k "5\r\n+OK" 60`:  limit + `'5\r\n+OK'`,
		`RL.SLIDE k 5 "\x00\xff"`:   window + `'\x00\xff'`,
		`RL.SLIDE k 5 60 "it's"`:    syntax + `unknown option 'it\'s'; expected COST, ID, ONCE, SHARDS, FAIL, SHADOW, BLOCK, AND or another limit`,
		"RL.SLIDE k 5 60 FAIL @200": syntax + "FAIL must be OPEN, CLOSED, LOCAL or ERROR; it was '" + strings.Repeat("y", 128) + "'... (200 bytes)",
		"RL.SLIDE k 5 60 COST @200": cost + "'" + strings.Repeat("y", 128) + "'... (200 bytes)",
	} {
		_, got := parseLine(proxytest.Words(t, strings.NewReplacer("@200", strings.Repeat("y", 200), "@65", strings.Repeat("y", 65)).Replace(line)))
		require.Equal(t, want, got, line)
	}
}
