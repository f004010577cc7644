package commands

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
)

// parseLine parses a command line with the table's row, as Serve does.
func parseLine(args [][]byte) (engine.Request, string) {
	t := newTable()
	r := t.get(args[0])
	if !r.fits(len(args)) {
		return engine.Request{}, r.wrong
	}
	var p engine.Pipeline
	if msg := r.parse(args, &p); msg != "" {
		return engine.Request{}, msg
	}
	return p.Requests[0], ""
}

func TestParseErrors(t *testing.T) {
	nine := strings.Repeat(" 5 1", 9)
	for line, want := range map[string]string{
		// Arity.
		"RL.SLIDE":         "ERR wrong number of arguments for 'rl.slide' command",
		"RL.SLIDE k":       "ERR wrong number of arguments for 'rl.slide' command",
		"rl.slide k 5":     "ERR wrong number of arguments for 'rl.slide' command",
		"RL.COUNTER k 5":   "ERR wrong number of arguments for 'rl.counter' command",
		"RL.FIXED k 5":     "ERR wrong number of arguments for 'rl.fixed' command",
		"RL.RESET":         "ERR wrong number of arguments for 'rl.reset' command",
		"RL.INSPECT":       "ERR wrong number of arguments for 'rl.inspect' command",
		"RL.INSPECT k k":   "ERR wrong number of arguments for 'rl.inspect' command",
		`RL.SLIDE "" 5`:    "ERR wrong number of arguments for 'rl.slide' command",
		`RL.SLIDE "" x x`:  errKey, // left to right
		"RL.SLIDE k x x":   errSyntax,
		"RL.SLIDE k 0 x":   errLimit,
		`RL.RESET ""`:      errKey,
		`RL.RESET a ""`:    errKey,
		`RL.INSPECT ""`:    errKey,
		"RL.RESET @4097":   errKey,
		"RL.SLIDE @4097 5": "ERR wrong number of arguments for 'rl.slide' command",
		// Limits.
		"RL.SLIDE k -1 60":                   errLimit,
		"RL.SLIDE k 1000000000001 60":        errLimit,
		"RL.SLIDE k 9223372036854775807 60":  errLimit,
		"RL.SLIDE k 9223372036854775808 60":  errLimit, // an integer still
		"RL.SLIDE k -99999999999999999999 1": errLimit,
		"RL.SLIDE k 05 60":                   errSyntax,
		"RL.SLIDE k +5 60":                   errSyntax,
		"RL.SLIDE k -0 60":                   errSyntax,
		"RL.SLIDE k - 60":                    errSyntax,
		"RL.SLIDE k 5.0 60":                  errSyntax,
		"RL.SLIDE k 1e3 60":                  errSyntax,
		`RL.SLIDE k " 5" 60`:                 errSyntax,
		`RL.SLIDE k "5 " 60`:                 errSyntax,
		`RL.SLIDE k "" 60`:                   errSyntax,
		"RL.SLIDE k 5 60 0 60":               errLimit, // before the duplicate
		"RL.SLIDE k 5 60 6":                  errSyntax,
		"RL.SLIDE k 5 60 6 COST 1":           errSyntax,
		"RL.SLIDE k 5 cost":                  errSyntax,
		"RL.COUNTER k 5 60 6 STRICT":         errSyntax,
		// Windows.
		"RL.SLIDE k 5 0":                                 errWindow,
		"RL.SLIDE k 5 0ms":                               errWindow,
		"RL.SLIDE k 5 -1":                                errWindow,
		"RL.SLIDE k 5 +1":                                errWindow,
		"RL.SLIDE k 5 01":                                errWindow,
		"RL.SLIDE k 5 s":                                 errWindow,
		"RL.SLIDE k 5 1S":                                errWindow,
		"RL.SLIDE k 5 1M":                                errWindow,
		"RL.SLIDE k 5 1w":                                errWindow,
		"RL.SLIDE k 5 1.5s":                              errWindow,
		"RL.SLIDE k 5 1mss":                              errWindow,
		`RL.SLIDE k 5 "1 s"`:                             errWindow,
		`RL.SLIDE k 5 ""`:                                errWindow,
		"RL.SLIDE k 5 367d":                              errWindow,
		"RL.SLIDE k 5 8785h":                             errWindow,
		"RL.SLIDE k 5 31622401":                          errWindow,
		"RL.SLIDE k 5 31622400001ms":                     errWindow,
		"RL.SLIDE k 5 9223372036854775807d":              errWindow,
		"RL.SLIDE k 5 9223372036854775808":               errWindow,
		"RL.SLIDE k 5 BUCKETS":                           errWindow, // no option of this command
		"RL.SLIDE k 5 60 5 60":                           errDuplicate,
		"RL.SLIDE k 5 60 5 1m":                           errDuplicate,
		"RL.SLIDE k 5 60000ms 5 60s":                     errDuplicate,
		"RL.SLIDE k 5 60 5 60 COST 6":                    errDuplicate, // before the cost
		"RL.SLIDE k 5 60 5 60 COST x":                    errCost,      // after the words
		"RL.SLIDE k" + nine:                              errWindows,
		"RL.SLIDE k" + nine[:len(nine)-2]:                errWindows,
		"RL.SLIDE k 5 1 5 2 5 3 5 4 5 5 5 6 5 7 5 8 0 9": errWindows,
		// Options.
		"RL.SLIDE k 5 60 COST":                             errSyntax,
		"RL.SLIDE k 5 60 ID":                               errSyntax,
		"RL.SLIDE k 5 60 SHARDS":                           errSyntax,
		"RL.SLIDE k 5 60 FAIL":                             errSyntax,
		"RL.SLIDE k 5 60 COST 1 COST 1":                    errSyntax,
		"RL.SLIDE k 5 60 COST 1 COST x":                    errSyntax,
		"RL.SLIDE k 5 60 COST x COST 1":                    errCost,
		"RL.SLIDE k 5 60 ID a id b":                        errSyntax,
		"RL.SLIDE k 5 60 FAIL MAYBE":                       errSyntax,
		"RL.SLIDE k 5 60 FAIL OPEN FAIL OPEN":              errSyntax,
		"RL.SLIDE k 5 60 SHARDS 2 shards 2":                errSyntax,
		"RL.SLIDE k 5 60 COST 1 6 70":                      errSyntax,
		"RL.SLIDE k 5 60 COST 1 6":                         errSyntax,
		"RL.SLIDE k 5 60 WHAT":                             errSyntax,
		"RL.SLIDE k 5 60 BUCKETS 2":                        errSyntax,
		"RL.SLIDE k 5 60 STRICT":                           errSyntax,
		"RL.FIXED k 5 60 BUCKETS 2":                        errSyntax,
		"RL.FIXED k 5 60 STRICT":                           errSyntax,
		"RL.SLIDE k COST 1":                                errSyntax,
		"RL.SLIDE k COST x":                                errSyntax,
		"RL.COUNTER k 5 60 STRICT STRICT":                  errSyntax,
		"RL.COUNTER k 5 60 STRICT 1":                       errSyntax,
		"RL.COUNTER k 5 60 BUCKETS":                        errSyntax,
		"RL.COUNTER k 5 60 BUCKETS 2 BUCKETS 2":            errSyntax,
		"RL.SLIDE k 5 60 COST -1":                          errCost,
		"RL.SLIDE k 5 60 COST 1000000000001":               errCost,
		"RL.SLIDE k 5 60 COST 99999999999999999999":        errCost,
		"RL.SLIDE k 5 60 COST 01":                          errCost,
		"RL.SLIDE k 5 60 COST ID x":                        errCost,
		"RL.SLIDE k 5 60 COST 6":                           errTooCostly,
		"RL.SLIDE k 5 60 4 70 COST 5":                      errTooCostly,
		"RL.SLIDE k 5 60 SHARDS 0":                         errShards,
		"RL.SLIDE k 5 60 SHARDS 1025":                      errShards,
		"RL.SLIDE k 5 60 SHARDS x":                         errShards,
		"RL.SLIDE k 5 60 COST 6 SHARDS 0":                  errShards, // the word before the whole
		"RL.COUNTER k 5 60 BUCKETS 0":                      errBuckets,
		"RL.COUNTER k 5 60 BUCKETS 1001":                   errBuckets,
		"RL.COUNTER k 5 1ms BUCKETS 1001":                  errBuckets,
		"RL.COUNTER k 5 1ms BUCKETS 2":                     errFine,
		"RL.COUNTER k 5 60 6 9ms BUCKETS 10":               errFine,
		"RL.COUNTER k 5 9ms BUCKETS 10 COST x":             errFine,
		"RL.COUNTER k 5 9ms COST x BUCKETS 10":             errCost,
		"RL.COUNTER k 5 9ms 5 9ms COST 6 BUCKETS 10":       errFine,
		"CL.THROTTLE":                                      errCellUsage,
		"CL.THROTTLE k 1 2":                                errCellUsage,
		"CL.THROTTLE k 1 2 3 4 5":                          errCellUsage,
		"CL.THROTTLE k x 2 3":                              errCellInteger + "x",
		"CL.THROTTLE k 1 2.5 y":                            errCellInteger + "2.5",
		`CL.THROTTLE k 1 2 3 ""`:                           errCellInteger,
		"CL.THROTTLE k 1 2 9223372036854775808":            errCellInteger + "9223372036854775808",
		"CL.THROTTLE k 1 2 -":                              errCellInteger + "-",
		"CL.THROTTLE k 1 0 60":                             errCellZero,
		"CL.THROTTLE k 1 10 0":                             errCellZero,
		"CL.THROTTLE k 1 2000000000 1":                     errCellZero, // more than one a ns
		"CL.THROTTLE k -1 10 60":                           errCellRange,
		"CL.THROTTLE k 1 -10 60":                           errCellRange,
		"CL.THROTTLE k 1 10 -60":                           errCellRange,
		"CL.THROTTLE k 1 10 60 -1":                         errCellRange,
		"CL.THROTTLE k 9223372036854775807 1 1":            errCellRange,
		"CL.THROTTLE k 9223372036854775806 1 1":            errCellRange,
		"CL.THROTTLE k 1 1 9223372036854775807":            errCellRange,
		"CL.THROTTLE k 1 1 60 9223372036854775807":         errCellRange,
		`CL.THROTTLE "" 1 1 60`:                            errKey,
		"CL.THROTTLE k \"a\\x00b\" 1 60":                   errCellInteger + "a",
		"CL.THROTTLE k \"\\xff\" 1 60":                     errCellInteger,
		"CL.THROTTLE k 1 1 60 " + strings.Repeat("y", 200): errCellInteger + strings.Repeat("y", 128),
	} {
		_, got := parseLine(split(t, strings.ReplaceAll(line, "@4097", strings.Repeat("k", 4097))))
		require.Equal(t, want, got, line)
	}
}

func TestParseRequests(t *testing.T) {
	base := func(change func(r *engine.Request)) engine.Request {
		r := engine.Request{Op: engine.OpSlide, Key: []byte("k"), N: 1, Cost: 1, Buckets: 1}
		r.Windows[0] = engine.Window{Limit: 5, Length: 60_000}
		change(&r)
		return r
	}
	same := base(func(*engine.Request) {})
	for line, want := range map[string]engine.Request{
		"RL.SLIDE k 5 60":      same,
		"rl.slide k 5 60s":     same,
		"rL.sLiDe k 5 1m":      same,
		"RL.SLIDE k 5 60000ms": same,
		"RL.SLIDE k 5 1ms":     base(func(r *engine.Request) { r.Windows[0].Length = 1 }),
		"RL.SLIDE k 5 366d":    base(func(r *engine.Request) { r.Windows[0].Length = engine.MaxWindow }),
		"RL.SLIDE k 1000000000000 24h COST 1000000000000": base(func(r *engine.Request) {
			r.Windows[0] = engine.Window{Limit: engine.MaxLimit, Length: 86_400_000}
			r.Cost = engine.MaxLimit
		}),
		"RL.SLIDE k 5 60 cost 0 id ID shards 3 fail closed": base(func(r *engine.Request) {
			r.Cost, r.ID, r.Shards, r.Fail = 0, []byte("ID"), 3, engine.PolicyClosed
		}),
		"RL.SLIDE k 5 60 FAIL Local ID COST": base(func(r *engine.Request) {
			r.ID, r.Fail = []byte("COST"), engine.PolicyLocal
		}),
		`RL.SLIDE k 5 60 ID ""`:       base(func(r *engine.Request) { r.ID = []byte{} }),
		"RL.SLIDE k 5 60 FAIL OPEN":   base(func(r *engine.Request) { r.Fail = engine.PolicyOpen }),
		"RL.SLIDE k 5 60 FAIL ERROR":  base(func(r *engine.Request) { r.Fail = engine.PolicyError }),
		"RL.SLIDE k 5 60 SHARDS 1024": base(func(r *engine.Request) { r.Shards = 5 }), // the smallest limit
		"RL.SLIDE k 5 60 3 1h SHARDS 4 ": base(func(r *engine.Request) {
			r.Shards, r.N, r.Windows[1] = 3, 2, engine.Window{Limit: 3, Length: 3_600_000}
		}),
		"RL.FIXED k 5 60":   base(func(r *engine.Request) { r.Op = engine.OpFixed }),
		"RL.COUNTER k 5 60": base(func(r *engine.Request) { r.Op = engine.OpCounter }),
		"RL.COUNTER k 5 60 strict BUCKETS 1000": base(func(r *engine.Request) {
			r.Op, r.Strict, r.Buckets = engine.OpCounter, true, 1000
		}),
		"RL.COUNTER k 5 2ms BUCKETS 2": base(func(r *engine.Request) {
			r.Op, r.Buckets, r.Windows[0].Length = engine.OpCounter, 2, 2
		}),
	} {
		got, msg := parseLine(split(t, line))
		require.Empty(t, msg, line)
		require.Equal(t, want, got, line)
	}
}

func TestParseThrottle(t *testing.T) {
	want := engine.Request{Op: engine.OpThrottle, Key: []byte("k"), Cost: 1,
		Throttle: engine.Throttle{Burst: 15, Count: 30, Period: 60}}
	for _, line := range []string{"CL.THROTTLE k 15 30 60", "cl.throttle k +15 030 60 1"} {
		got, msg := parseLine(split(t, line))
		require.Empty(t, msg, line)
		require.Equal(t, want, got, line)
	}
	got, msg := parseLine(split(t, "CL.THROTTLE k 0 1000000000 1 0"))
	require.Empty(t, msg)
	require.Zero(t, got.Cost)
}

// An empty key fails a whole RL.RESET: the keys before it are not reset.
func TestResetIsCheckedWhole(t *testing.T) {
	e := newFakeEngine()
	h := New(testConfig(e))
	s := open(h, 1)
	ask(h, s, words("RL.SLIDE", "a", "5", "60"))
	require.Equal(t, "-"+errKey+"\r\n", ask(h, s, words("RL.RESET", "a", "")))
	require.Equal(t, []int{1}, e.calls)
}

func TestInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-1": -1, "10": 10,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		n, ok := integer([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, n)
	}
	for _, text := range []string{
		"", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "0x1", "--1", "\x00",
		"9223372036854775808", "-9223372036854775809", "92233720368547758070",
	} {
		_, ok := integer([]byte(text))
		require.False(t, ok, text)
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	rows := newTable()
	var p engine.Pipeline
	for _, line := range []string{
		"rl.slide user:42 100 60",
		"RL.SLIDE user:42 100 60s 1000 1h COST 3 ID x SHARDS 4 FAIL OPEN",
		"Rl.Counter user:42 100 60 BUCKETS 6 STRICT",
		"RL.FIXED user:42 100 1d",
		"RL.RESET a b c",
		"RL.INSPECT a",
		"CL.THROTTLE a 15 30 60 1",
	} {
		args := split(t, line)
		allocs := testing.AllocsPerRun(100, func() {
			p.Reset()
			if rows.get(args[0]).parse(args, &p) != "" {
				panic(line)
			}
		})
		require.Zero(t, allocs, line)
	}
}
