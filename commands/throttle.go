package commands

import (
	"math"
	"unicode/utf8"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// throttleRow is CL.THROTTLE, redis-cell's command. What this file follows was read in
// github.com/brandur/redis-cell: arguments, rounding and reply in src/lib.rs, the
// algorithm (GCRA) and "Zero rates" in src/cell/mod.rs, both at commit 769d908.
//
//   - Five or six words, else the usage error: its arity is not checked by Redis.
//   - Integers are read by Rust's parse::<i64>: a plus sign and leading zeros are
//     fine, unlike everywhere else here.
//   - The interval between units is period/count in ns, the quotient of two doubles
//     cut to an integer. Zero is refused: a count or period of 0, or more than
//     10^9 units a second.
//   - The tolerance is interval x (max_burst+1), the increment interval x quantity.
//     A request is limited when max(now, tat) + increment - tolerance lies after now,
//     tat being the time at which everything charged has drained.
//   - Quantity 0 asks. A quantity above the limit is limited with retry_after -1,
//     which is also retry_after when not limited.
//   - remaining is the rest of the tolerance over the interval, both in whole
//     microseconds, cut to an integer.
//   - retry_after and reset_after are whole seconds, one more when there is a part of
//     at least 1 ms.
//
// redis-cell multiplies what it is given and wraps around; here products that do not
// fit, and negative numbers, are errors. Its errors begin with "Cell error: ";
// between versions the text after that has also been written with "Store error: "
// before it, which is left out here.
func throttleRow() row {
	return row{
		name: "cl.throttle", arity: -1, flags: writes, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(1)",
		summary: "Limits by GCRA, as redis-cell does",
		args: []arg{keyArg,
			{name: "max_burst", typ: "integer", about: "units admitted at once, less one"},
			{name: "count", typ: "integer", about: "units per period"},
			{name: "period", typ: "integer", about: "seconds"},
			{name: "quantity", typ: "integer", optional: true, about: "units of this request, 1 if not given; 0 asks without charging"},
		},
		replies: "Five integers: limited (1 or 0), limit (max_burst + 1), remaining, retry_after (-1 when not " +
			"limited, or when waiting never helps) and reset_after, both in seconds.",
		example: []example{{"CL.THROTTLE user:42 15 30 60", "1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2"}},
		parse:   parseThrottle,
		reply:   replyThrottle,
	}
}

func parseThrottle(args [][]byte, p *engine.Pipeline) string {
	if len(args) != 5 && len(args) != 6 {
		return errCellUsage
	}
	n := [4]int64{3: 1} // max_burst, count, period, quantity
	for i, a := range args[2:] {
		var ok bool
		if n[i], ok = rustInteger(a); !ok {
			return cellIntegerError(a)
		}
	}
	burst, count, period, quantity := n[0], n[1], n[2], n[3]
	if count == 0 || period == 0 {
		return errCellZero
	}
	if burst < 0 || count < 0 || period < 0 || quantity < 0 || burst == math.MaxInt64 || period > math.MaxInt64/1_000_000_000 {
		return errCellRange
	}
	interval := int64(float64(period*1e9) / float64(count)) // ns
	if interval == 0 {
		return errCellZero
	}
	if max(burst+1, quantity) > math.MaxInt64/interval {
		return errCellRange
	}
	if !keyFits(args[1]) {
		return errKey
	}
	r := p.Add()
	r.Op, r.Key, r.Cost = engine.OpThrottle, args[1], quantity
	r.Throttle = engine.Throttle{Burst: burst, Count: count, Period: period}
	return ""
}

// cellIntegerError quotes the word, as far as an error can: redis-cell ends its text
// at a NUL, and does not survive a word that is not UTF-8.
func cellIntegerError(word []byte) string {
	word = cString(word, quoted)
	if !utf8.Valid(word) {
		word = nil
	}
	return errCellInteger + string(word)
}

// rustInteger reads b as Rust's i64::from_str does.
func rustInteger(b []byte) (int64, bool) {
	digits := b
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		digits = b[1:]
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	if len(digits) == 0 {
		return 0, false
	}
	return decimal(digits, negative)
}

func replyThrottle(dst []byte, _ int, results []engine.Result) []byte {
	r := &results[0]
	if r.Err != nil {
		return appendFailure(dst, r.Err)
	}
	limited, retry := int64(1), seconds(r.RetryAfter)
	if r.Allowed {
		limited, retry = 0, -1
	}
	dst = resp.AppendArray(dst, 5)
	dst = resp.AppendInt(dst, limited)
	dst = resp.AppendInt(dst, r.Limit)
	dst = resp.AppendInt(dst, r.Remaining)
	dst = resp.AppendInt(dst, retry)
	return resp.AppendInt(dst, seconds(r.ResetAfter))
}

// seconds rounds ms up to whole seconds; -1 stays.
func seconds(ms int64) int64 {
	if ms < 0 {
		return -1
	}
	return (ms + 999) / 1000
}
