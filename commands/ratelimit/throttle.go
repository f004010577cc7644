package ratelimit

import (
	"math"
	"unicode/utf8"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
)

func init() {
	registerOther(limit.GCRA, throttle)
}

// throttle returns CL.THROTTLE, redis-cell's command. It follows github.com/brandur/redis-cell at commit 769d908:
// src/lib.rs for the arguments, the rounding and the reply, src/cell/mod.rs for the algorithm (GCRA) and "Zero rates".
//
//   - There are five or six words, else the usage error: Redis does not check the arity.
//   - Integers are those of Rust's parse::<i64>, which allows a plus sign and leading zeros,
//     unlike the other commands.
//   - The interval between units is period/count in ns, the quotient of two doubles,
//     truncated. Zero is refused: a count or period of 0, or more than 10^9 units a second.
//   - The tolerance is interval x (max_burst+1), the increment interval x quantity. A request
//     is limited if max(now, tat) + increment - tolerance is after now, where tat is the time
//     at which everything charged has drained.
//   - Quantity 0 charges nothing. A quantity above the limit is limited with retry_after -1,
//     which is also retry_after when not limited.
//   - remaining is the remaining tolerance divided by the interval, truncated. redis-cell divides
//     whole microseconds, so it says too much if the interval is not one: 6024 of a limit of 6001.
//   - retry_after and reset_after are in seconds, rounded up from 1 ms on.
//
// Where redis-cell multiplies with wraparound, rlproxy refuses more than 10^12 units, units that take longer than
// limit.MaxDrain to drain, and negative numbers. All errors begin as redis-cell's do at that commit. Older versions,
// such as 0.2.2, leave "Store error: " out.
func throttle() Command {
	return Command{Command: table.Command{
		Name: "cl.throttle", Arity: -1, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(1)",
		Summary:    "Limits by GCRA, as redis-cell does",
		Args: []table.Arg{keyArg,
			{Name: "max_burst", Type: "integer", About: "units admitted at once, minus one"},
			{Name: "count", Type: "integer", About: "units per period"},
			{Name: "period", Type: "integer", About: "seconds"},
			{Name: "quantity", Type: "integer", Optional: true,
				About: "units of this request; default 1; 0 charges nothing"},
		},
		Replies: "Five integers: limited (1 or 0), limit (max_burst + 1), remaining (what is left, where " +
			"redis-cell may " +
			"say more), retry_after (-1 when not limited, or when waiting never helps) and reset_after, both in " +
			"seconds.",
		Examples: []table.Example{{Line: "CL.THROTTLE user:42 15 30 60",
			Reply: "1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2"}},
	},
		Parse: parseThrottle,
		Reply: replyThrottle,
	}
}

// The errors. The first three are redis-cell's. It has none for numbers that overflow
// when multiplied, with which it wraps around.
const (
	errCellUsage = "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> " +
		"[<quantity>]"
	errCellInteger = "Cell error: Store error: Couldn't parse as integer: " // followed by the word
	errCellZero    = "Cell error: Store error: Zero rates are not supported"
	errCellRange   = "Cell error: Store error: Values are negative or too large"
)

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
	if burst < 0 || count < 0 || period < 0 || quantity < 0 || burst == math.MaxInt64 ||
		period > math.MaxInt64/1_000_000_000 {
		return errCellRange
	}
	interval := limit.Interval(count, period)
	if interval == 0 {
		return errCellZero
	}
	if most := max(burst+1, quantity); most > limit.MaxLimit || most > limit.MaxDrain/interval {
		return errCellRange
	}
	if !keyFits(args[1]) {
		return keyError(args[1])
	}
	r := p.Add()
	r.Kind, r.Key, r.Cost = limit.GCRA, p.Name(args[1], false), quantity
	r.Manner, r.N = interval, 1
	r.Windows[0] = limit.Window{Limit: burst + 1}
	return ""
}

// cellIntegerError quotes arg up to a NUL, as redis-cell does. It does not quote an arg that
// is not UTF-8, which redis-cell does not survive.
func cellIntegerError(arg []byte) string {
	arg = word.Quote(arg)
	if !utf8.Valid(arg) {
		arg = nil
	}
	return errCellInteger + string(arg)
}

// rustInteger parses b as Rust's i64::from_str does.
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
	return word.Decimal(digits, negative)
}

func replyThrottle(dst []byte, _ int, _ []engine.Request, results []engine.Result) []byte {
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

// seconds rounds ms up to whole seconds. A negative ms gives -1.
func seconds(ms int64) int64 {
	if ms < 0 {
		return -1
	}
	return (ms + 999) / 1000
}
