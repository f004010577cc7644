package ratelimit

import (
	"bytes"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
)

func TestFirstWrongWordDeterminesTheError(t *testing.T) {
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
		`RL.SLIDE "" x x`:  reply.ErrKey, // left to right
		"RL.SLIDE k x x":   reply.ErrLimit,
		"RL.SLIDE k 0 x":   reply.ErrLimit,
		`RL.RESET ""`:      reply.ErrKey,
		`RL.RESET a ""`:    reply.ErrKey,
		`RL.INSPECT ""`:    reply.ErrKey,
		"RL.RESET @4097":   reply.ErrKey,
		"RL.SLIDE @4097 5": "ERR wrong number of arguments for 'rl.slide' command",
		// Limits.
		"RL.SLIDE k -1 60":                   reply.ErrLimit,
		"RL.SLIDE k 1000000000001 60":        reply.ErrLimit,
		"RL.SLIDE k 9223372036854775807 60":  reply.ErrLimit,
		"RL.SLIDE k 9223372036854775808 60":  reply.ErrLimit, // still an integer
		"RL.SLIDE k -99999999999999999999 1": reply.ErrLimit,
		"RL.SLIDE k 05 60":                   reply.ErrLimit,
		"RL.SLIDE k +5 60":                   reply.ErrLimit,
		"RL.SLIDE k -0 60":                   reply.ErrLimit,
		"RL.SLIDE k - 60":                    reply.ErrLimit,
		"RL.SLIDE k 5.0 60":                  reply.ErrLimit,
		"RL.SLIDE k 1e3 60":                  reply.ErrLimit,
		`RL.SLIDE k " 5" 60`:                 reply.ErrLimit,
		`RL.SLIDE k "5 " 60`:                 reply.ErrLimit,
		`RL.SLIDE k "" 60`:                   reply.ErrLimit,
		"RL.SLIDE k 5 60 0 60":               reply.ErrLimit, // before the duplicate
		"RL.SLIDE k 5 60 6":                  reply.ErrSyntax,
		"RL.SLIDE k 5 60 6 COST 1":           reply.ErrSyntax,
		"RL.SLIDE k 5 cost":                  reply.ErrWindow,
		"RL.COUNTER k 5 60 6 STRICT":         reply.ErrSyntax,
		// Windows.
		"RL.SLIDE k 5 0":                                 reply.ErrWindow,
		"RL.SLIDE k 5 0ms":                               reply.ErrWindow,
		"RL.SLIDE k 5 -1":                                reply.ErrWindow,
		"RL.SLIDE k 5 +1":                                reply.ErrWindow,
		"RL.SLIDE k 5 01":                                reply.ErrWindow,
		"RL.SLIDE k 5 s":                                 reply.ErrWindow,
		"RL.SLIDE k 5 1S":                                reply.ErrWindow,
		"RL.SLIDE k 5 1M":                                reply.ErrWindow,
		"RL.SLIDE k 5 1w":                                reply.ErrWindow,
		"RL.SLIDE k 5 1.5s":                              reply.ErrWindow,
		"RL.SLIDE k 5 1mss":                              reply.ErrWindow,
		`RL.SLIDE k 5 "1 s"`:                             reply.ErrWindow,
		`RL.SLIDE k 5 ""`:                                reply.ErrWindow,
		"RL.SLIDE k 5 367d":                              reply.ErrWindow,
		"RL.SLIDE k 5 8785h":                             reply.ErrWindow,
		"RL.SLIDE k 5 31622401":                          reply.ErrWindow,
		"RL.SLIDE k 5 31622400001ms":                     reply.ErrWindow,
		"RL.SLIDE k 5 9223372036854775807d":              reply.ErrWindow,
		"RL.SLIDE k 5 9223372036854775808":               reply.ErrWindow,
		"RL.SLIDE k 5 BUCKETS":                           reply.ErrWindow, // not an option of this command
		"RL.SLIDE k 5 60 5 60":                           reply.ErrDuplicate,
		"RL.SLIDE k 5 60 5 1m":                           reply.ErrDuplicate,
		"RL.SLIDE k 5 60000ms 5 60s":                     reply.ErrDuplicate,
		"RL.SLIDE k 5 60 5 60 COST 6":                    reply.ErrDuplicate, // before the cost
		"RL.SLIDE k 5 60 5 60 COST x":                    reply.ErrCost,      // after the words
		"RL.SLIDE k" + nine:                              reply.ErrWindows,
		"RL.SLIDE k" + nine[:len(nine)-2]:                reply.ErrWindows,
		"RL.SLIDE k 5 1 5 2 5 3 5 4 5 5 5 6 5 7 5 8 0 9": reply.ErrWindows,
		// Options.
		"RL.SLIDE k 5 60 COST":                       reply.ErrSyntax,
		"RL.SLIDE k 5 60 ID":                         reply.ErrSyntax,
		"RL.SLIDE k 5 60 SHARDS":                     reply.ErrSyntax,
		"RL.SLIDE k 5 60 FAIL":                       reply.ErrSyntax,
		"RL.SLIDE k 5 60 COST 1 COST 1":              reply.ErrSyntax,
		"RL.SLIDE k 5 60 COST 1 COST x":              reply.ErrSyntax,
		"RL.SLIDE k 5 60 COST x COST 1":              reply.ErrCost,
		"RL.SLIDE k 5 60 ID a id b":                  reply.ErrSyntax,
		"RL.SLIDE k 5 60 FAIL MAYBE":                 reply.ErrSyntax,
		"RL.SLIDE k 5 60 FAIL OPEN FAIL OPEN":        reply.ErrSyntax,
		"RL.SLIDE k 5 60 SHARDS 2 shards 2":          reply.ErrSyntax,
		"RL.SLIDE k 5 60 COST 1 6 70":                reply.ErrSyntax,
		"RL.SLIDE k 5 60 COST 1 6":                   reply.ErrSyntax,
		"RL.SLIDE k 5 60 WHAT":                       reply.ErrSyntax,
		"RL.SLIDE k 5 60 BUCKETS 2":                  reply.ErrSyntax,
		"RL.SLIDE k 5 60 STRICT":                     reply.ErrSyntax,
		"RL.FIXED k 5 60 BUCKETS 2":                  reply.ErrSyntax,
		"RL.FIXED k 5 60 STRICT":                     reply.ErrSyntax,
		"RL.SLIDE k COST 1":                          reply.ErrLimit,
		"RL.SLIDE k COST x":                          reply.ErrLimit,
		"RL.COUNTER k 5 60 STRICT STRICT":            reply.ErrSyntax,
		"RL.COUNTER k 5 60 STRICT 1":                 reply.ErrSyntax,
		"RL.COUNTER k 5 60 BUCKETS":                  reply.ErrSyntax,
		"RL.COUNTER k 5 60 BUCKETS 2 BUCKETS 2":      reply.ErrSyntax,
		"RL.SLIDE k 5 60 COST -1":                    reply.ErrCost,
		"RL.SLIDE k 5 60 COST 1000000000001":         reply.ErrCost,
		"RL.SLIDE k 5 60 COST 99999999999999999999":  reply.ErrCost,
		"RL.SLIDE k 5 60 COST 01":                    reply.ErrCost,
		"RL.SLIDE k 5 60 COST ID x":                  reply.ErrCost,
		"RL.SLIDE k 5 60 COST 6":                     reply.ErrTooCostly,
		"RL.SLIDE k 5 60 4 70 COST 5":                reply.ErrTooCostly,
		"RL.SLIDE k 5 60 SHARDS 0":                   reply.ErrShards,
		"RL.SLIDE k 5 60 SHARDS 1025":                reply.ErrShards,
		"RL.SLIDE k 5 60 SHARDS x":                   reply.ErrShards,
		"RL.SLIDE k 5 60 COST 6 SHARDS 0":            reply.ErrShards, // words before the request as a whole
		"RL.COUNTER k 5 60 BUCKETS 0":                reply.ErrBuckets,
		"RL.COUNTER k 5 60 BUCKETS 1001":             reply.ErrBuckets,
		"RL.COUNTER k 5 1ms BUCKETS 1001":            reply.ErrBuckets,
		"RL.COUNTER k 5 1ms BUCKETS 2":               reply.ErrFine,
		"RL.COUNTER k 5 60 6 9ms BUCKETS 10":         reply.ErrFine,
		"RL.COUNTER k 5 9ms BUCKETS 10 COST x":       reply.ErrFine,
		"RL.COUNTER k 5 9ms COST x BUCKETS 10":       reply.ErrCost,
		"RL.COUNTER k 5 9ms 5 9ms COST 6 BUCKETS 10": reply.ErrFine,
	} {
		_, got := parseLine(proxytest.Words(t, strings.ReplaceAll(line, "@4097", strings.Repeat("k", 4097))))
		requireBegins(t, want, got, line)
	}
}

// A shadow denies nothing, whatever answers: the key's state, or a FAIL policy.
func TestRepliesToShadowsBeginWithOne(t *testing.T) {
	c := find([]byte("RL.SLIDE"))
	requests := []engine.Request{{Shadow: true, Spec: limit.Spec{N: 2, Windows: [limit.MaxWindows]limit.Window{{Limit: 7}, {Limit: 9}}}}}
	away := &engine.Unavailable{Node: "a:1", Why: "no answer in 50ms"}
	for _, row := range []struct {
		why  string
		res  engine.Result
		want string
	}{
		{"admitted", engine.Result{Decision: limit.Decision{Allowed: true, Limit: 9, Remaining: 3, ResetAfter: 60}}, "*5 :1 :9 :3 :0 :60 "},
		{"denied", engine.Result{Decision: limit.Decision{Limit: 9, RetryAfter: 40, ResetAfter: 60}}, "*5 :1 :9 :0 :40 :60 "},
		{"denied from memory", engine.Result{Remembered: true, Decision: limit.Decision{Limit: 9, RetryAfter: 40, ResetAfter: 60}}, "*5 :1 :9 :0 :40 :60 "},
		{"FAIL OPEN", engine.Result{Fail: engine.FailOpen, Decision: engine.FailOpen.Decide(&requests[0], 5)}, "*5 :1 :7 :-1 :0 :0 "},
		{"FAIL CLOSED", engine.Result{Fail: engine.FailClosed, Decision: engine.FailClosed.Decide(&requests[0], 5)}, "*5 :1 :7 :-1 :0 :0 "},
		{"FAIL LOCAL", engine.Result{Fail: engine.FailLocal, Decision: limit.Decision{Limit: 9, Remaining: -1, RetryAfter: 4, ResetAfter: 8}}, "*5 :1 :7 :-1 :0 :0 "},
		{"FAIL ERROR", engine.Result{Fail: engine.FailError, Err: away}, "*5 :1 :7 :-1 :0 :0 "},
		{"an error", engine.Result{Err: engine.ErrStates}, "-ERR too many windows on this key: at most 64 "},
	} {
		got := string(c.Reply(nil, 2, requests, []engine.Result{row.res}))
		require.Equal(t, row.want, strings.ReplaceAll(got, "\r\n", " "), row.why)
	}
}

// requireBegins requires that an error begins with a text that clients may match on, and that
// only what was given follows it.
func requireBegins(t *testing.T, want, got string, line any) {
	t.Helper()
	rest, ok := strings.CutPrefix(got, want)
	require.True(t, ok, "%v: %q, not %q", line, got, want)
	require.Regexp(t, "^[;:] ", rest, line)
	require.False(t, strings.ContainsFunc(rest, func(r rune) bool { return !unicode.IsPrint(r) }), "%v: %q", line, rest)
	require.Less(t, len(rest), 1000)
}

func TestLinesParseToRequests(t *testing.T) {
	base := func(change func(r *engine.Request)) engine.Request {
		r := engine.Request{Key: []byte("k"), Spec: limit.Spec{Kind: limit.Slide, N: 1, Cost: 1, Param: 1}}
		r.Windows[0] = limit.Window{Limit: 5, Length: 60_000}
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
		"RL.SLIDE k 5 366d":    base(func(r *engine.Request) { r.Windows[0].Length = limit.MaxWindow }),
		"RL.SLIDE k 1000000000000 24h COST 1000000000000": base(func(r *engine.Request) {
			r.Windows[0] = limit.Window{Limit: limit.MaxLimit, Length: 86_400_000}
			r.Cost = limit.MaxLimit
		}),
		"RL.SLIDE k 5 60 cost 0 id ID shards 3 fail closed": base(func(r *engine.Request) {
			r.Cost, r.ID, r.Shards, r.Fail = 0, []byte("ID"), 3, engine.FailClosed
		}),
		"RL.SLIDE k 5 60 FAIL Local ID COST": base(func(r *engine.Request) {
			r.ID, r.Fail = []byte("COST"), engine.FailLocal
		}),
		`RL.SLIDE k 5 60 ID ""`:       base(func(r *engine.Request) { r.ID = []byte{} }),
		"RL.SLIDE k 5 60 FAIL OPEN":   base(func(r *engine.Request) { r.Fail = engine.FailOpen }),
		"RL.SLIDE k 5 60 FAIL ERROR":  base(func(r *engine.Request) { r.Fail = engine.FailError }),
		"RL.SLIDE k 5 60 SHARDS 1024": base(func(r *engine.Request) { r.Shards = 5 }), // the smallest limit
		"RL.SLIDE k 5 60 3 1h SHARDS 4 ": base(func(r *engine.Request) {
			r.Shards, r.N, r.Windows[1] = 3, 2, limit.Window{Limit: 3, Length: 3_600_000}
		}),
		"RL.FIXED k 5 60":   base(func(r *engine.Request) { r.Kind = limit.Fixed }),
		"RL.COUNTER k 5 60": base(func(r *engine.Request) { r.Kind = limit.Counter }),
		"RL.COUNTER k 5 60 strict BUCKETS 1000": base(func(r *engine.Request) {
			r.Kind, r.Manner, r.Param = limit.Counter, limit.Strict, 1000
		}),
		"RL.SLIDE k 5 60 shadow": base(func(r *engine.Request) { r.Shadow, r.Key = true, []byte("k\xffs") }),
		"RL.COUNTER k 5 60 SHADOW ID x STRICT": base(func(r *engine.Request) {
			r.Kind, r.Shadow, r.Key, r.ID, r.Manner = limit.Counter, true, []byte("k\xffs"), []byte("x"), limit.Strict
		}),
		`RL.SLIDE "k\xffs" 5 60`: base(func(r *engine.Request) { r.Key = []byte("k\xffs\xffk") }), // a key that ends like a shadow's name
		"RL.COUNTER k 5 2ms BUCKETS 2": base(func(r *engine.Request) {
			r.Kind, r.Param, r.Windows[0].Length = limit.Counter, 2, 2
		}),
	} {
		got, msg := parseLine(proxytest.Words(t, line))
		require.Empty(t, msg, line)
		require.Equal(t, want, got, line)
	}
}

// The bounds that errors name are included.
func TestBoundsAreAccepted(t *testing.T) {
	for _, line := range []string{
		"RL.SLIDE @4096 1 1ms", "RL.SLIDE k 1000000000000 366d COST 1000000000000", "RL.SLIDE k 5 60 COST 5 SHARDS 1", "RL.FIXED k 1024 60 SHARDS 1024",
		"RL.COUNTER k 5 1ms BUCKETS 1", "RL.COUNTER k 5 1s BUCKETS 1000", "RL.RESERVE @4096 1 1ms COST 1 ID a TTL 1ms", "RL.SETTLE @4096 a 0",
		"RL.SETTLE k a 1000000000000", "RL.ACQUIRE @4096 1 ID a", "RL.ACQUIRE k 1000000000000 ID a COST 1000000000000 TTL 1s CONN", "RL.RENEW @4096 a TTL 1ms",
		"RL.RELEASE @4096 a", "RL.RESET @4096", "RL.INSPECT @4096",
	} {
		_, got := parseLine(proxytest.Words(t, strings.ReplaceAll(line, "@4096", strings.Repeat("k", 4096))))
		require.Empty(t, got, line)
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	var p engine.Pipeline
	for _, line := range []string{
		"rl.slide user:42 100 60",
		"RL.SLIDE user:42 100 60s 1000 1h COST 3 ID x SHARDS 4 FAIL OPEN",
		"Rl.Counter user:42 100 60 BUCKETS 6 STRICT",
		"RL.SLIDE user:42 100 60 SHADOW",
		"RL.FIXED user:42 100 1d",
		"RL.RESET a b c",
		"RL.INSPECT a",
		"CL.THROTTLE a 15 30 60 1",
	} {
		args := proxytest.Words(t, line)
		c := find(args[0])
		allocs := testing.AllocsPerRun(100, func() {
			p.Reset()
			if c.Parse(args, &p) != "" {
				panic(line)
			}
		})
		require.Zero(t, allocs, line)
	}
}

// FuzzParse compares the parser with slowParse. The input is the words of a command,
// separated by NULs, so that words may contain any other byte.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"RL.SLIDE\x00k\x005\x0060",
		"rl.slide\x00k\x005\x001m\x003\x001h\x00COST\x002\x00ID\x00x\x00SHARDS\x0012\x00FAIL\x00OPEN",
		"RL.COUNTER\x00k\x005\x0060s\x00BUCKETS\x0010\x00STRICT",
		"RL.COUNTER\x00k\x005\x003ms\x00BUCKETS\x004\x00COST\x006",
		"RL.FIXED\x00k\x001000000000000\x00366d\x00cost\x000",
		"RL.SLIDE\x00k\x005\x0060\x005\x0060000ms\x00COST\x006",
		"RL.SLIDE\x00k\x005\x0060\x00COST\x001\x006\x0070",
		"RL.SLIDE\x00k" + strings.Repeat("\x009\x0060", 9),
		"RL.SLIDE\x00\x005",
		"RL.SLIDE\x00k\x00-0\x00+1",
		"RL.FIXED\x00k\xffs\x005\x0060\x00SHADOW\x00ID\x00shadow",
		"RL.SLIDE\x00k\x005\x0060\x00ONCE\x00once",
		"RL.SLIDE\x00k\x005\x0060\x00AND\x00l\x005\x0060\x00COST\x002\x00AND\x00m\x005\x0060",
		"RL.FIXED\x00AND\x005\x0060\x00ID\x00AND\x00SHADOW\x00AND\x00ID\x005\x0060\x006\x0070\x00FAIL\x00OPEN",
		"RL.COUNTER\x00k\x005\x0060\x00STRICT\x00AND\x00k\x005\x0060",
		"RL.SLIDE\x001\x005\x001" + strings.Repeat("\x00AND\x00k\x005\x0060", 8),
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		args := bytes.Split(input, []byte{0})
		c := find(args[0])
		if c == nil || (c.Name != "rl.slide" && c.Name != "rl.counter" && c.Name != "rl.fixed") {
			return
		}
		want, wantErr := slowParse(args)
		got, msg := parseAll(c, args)
		if wantErr != nil {
			requireBegins(t, wantErr.Error(), msg, args)
			return
		}
		require.Empty(t, msg)
		require.Equal(t, want, got)
		// The keys that a user's rules are checked against are those of the requests.
		keys := c.Keys.Of(args)
		require.Len(t, keys, len(got))
		for i := range got {
			key, _ := shard.ClientKey(got[i].Key)
			require.Equal(t, string(keys[max(int(got[i].KeyNumber), 1)-1]), string(key))
		}
	})
}

var (
	integerForm = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	windowForm  = regexp.MustCompile(`^([1-9][0-9]*)(ms|s|m|h|d|)$`)
	unitMs      = map[string]int64{"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
	policies    = map[string]engine.FailPolicy{
		"OPEN": engine.FailOpen, "CLOSED": engine.FailClosed, "LOCAL": engine.FailLocal, "ERROR": engine.FailError,
	}
)

// slowParse is the simplest implementation of the grammar.
func slowParse(args [][]byte) (all []engine.Request, err error) {
	name := strings.ToUpper(string(args[0]))
	if len(args) < 4 {
		return nil, errors.New("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	once, keys, errWindows, errCost := false, map[string]bool{}, error(nil), error(nil)
	for rest, i := args[1:], 0; rest != nil; i++ {
		if len(rest) < 3 {
			return nil, errors.New(reply.ErrSyntax)
		}
		if i == 8 {
			return nil, errors.New(reply.ErrKeys)
		}
		key := string(rest[0])
		var r engine.Request
		var late error
		r, rest, late, err = slowKey(name, rest)
		if err != nil {
			return nil, err
		}
		if once = once || r.Hold != nil; once && (i > 0 || rest != nil) {
			return nil, errors.New(reply.ErrSyntax)
		}
		switch {
		case late == nil:
		case late.Error() == reply.ErrDuplicate:
			errWindows = late
		default:
			errCost = late
		}
		keys[key] = true
		all = append(all, r)
	}
	switch {
	case errWindows != nil:
		return nil, errWindows
	case len(keys) < len(all):
		return nil, errors.New(reply.ErrSameKey)
	case errCost != nil:
		return nil, errCost
	}
	if len(all) > 1 { // those with SHADOW last
		var together, apart []engine.Request
		for i, r := range all {
			if r.KeyNumber = uint8(i + 1); r.Shadow {
				apart = append(apart, r)
			} else {
				together = append(together, r)
			}
		}
		if len(together) > 0 {
			together[0].MoreKeys = len(together) - 1
		}
		all = slices.Concat(together, apart)
	}
	return all, nil
}

// slowKey parses the words of one key. It returns those after AND, nil if there is none, and apart from the
// error of a wrong word one that is found when all words are read.
func slowKey(name string, args [][]byte) (r engine.Request, after [][]byte, late, err error) {
	fail := func(text string) (engine.Request, [][]byte, error, error) { return r, nil, nil, errors.New(text) }
	options := map[string]bool{"COST": true, "ID": true, "SHARDS": true, "FAIL": true, "SHADOW": true, "ONCE": true, "AND": true}
	r.Kind = map[string]limit.Kind{"RL.SLIDE": limit.Slide, "RL.COUNTER": limit.Counter, "RL.FIXED": limit.Fixed}[name]
	if r.Kind == limit.Counter {
		options["BUCKETS"], options["STRICT"] = true, true
	}
	if len(args[0]) == 0 || len(args[0]) > 4096 {
		return fail(reply.ErrKey)
	}
	r.Key, r.Cost, r.Param = args[0], 1, 1
	rest := args[1:]
	for len(rest) > 0 && (r.N == 0 || integerForm.Match(rest[0])) {
		if r.N == 8 {
			return fail(reply.ErrWindows)
		}
		most, ok := between(rest[0], 1, 1_000_000_000_000)
		if !ok {
			return fail(reply.ErrLimit)
		}
		if len(rest) == 1 || r.N > 0 && options[strings.ToUpper(string(rest[1]))] {
			return fail(reply.ErrSyntax)
		}
		m := windowForm.FindSubmatch(rest[1])
		if m == nil {
			return fail(reply.ErrWindow)
		}
		ms, _ := new(big.Int).SetString(string(m[1]), 10)
		ms.Mul(ms, big.NewInt(unitMs[string(m[2])]))
		if ms.Cmp(big.NewInt(366*86_400_000)) > 0 {
			return fail(reply.ErrWindow)
		}
		r.Windows[r.N] = limit.Window{Limit: most, Length: ms.Int64()}
		r.N++
		rest = rest[2:]
	}
	seen := map[string]bool{}
	for len(rest) > 0 {
		o := strings.ToUpper(string(rest[0]))
		if !options[o] || seen[o] {
			return fail(reply.ErrSyntax)
		}
		seen[o] = true
		rest = rest[1:]
		switch o {
		case "STRICT":
			r.Manner = limit.Strict
			continue
		case "SHADOW":
			r.Shadow = true
			continue
		case "AND":
			after = rest
		}
		if after != nil {
			break
		}
		if len(rest) == 0 {
			return fail(reply.ErrSyntax)
		}
		var ok bool
		var n int64
		switch value := rest[0]; o {
		case "ID":
			r.ID = value
		case "ONCE":
			if len(value) == 0 || len(value) > 64 {
				return fail(reply.ErrHoldID)
			}
			r.Hold = &engine.Hold{ID: engine.DigestOf(value), Once: true}
		case "FAIL":
			if r.Fail, ok = policies[strings.ToUpper(string(value))]; !ok {
				return fail(reply.ErrSyntax)
			}
		case "COST":
			if r.Cost, ok = between(value, 0, 1_000_000_000_000); !ok {
				return fail(reply.ErrCost)
			}
		case "SHARDS":
			if n, ok = between(value, 1, 1024); !ok {
				return fail(reply.ErrShards)
			}
			r.Shards = int(n)
		case "BUCKETS":
			if r.Param, ok = between(value, 1, 1000); !ok {
				return fail(reply.ErrBuckets)
			}
			for _, w := range r.Windows[:r.N] {
				if r.Param > w.Length {
					return fail(reply.ErrFine)
				}
			}
		}
		rest = rest[1:]
	}
	lengths := map[int64]bool{}
	smallest := int64(1_000_000_000_000)
	for _, w := range r.Windows[:r.N] {
		lengths[w.Length] = true
		smallest = min(smallest, w.Limit)
	}
	switch {
	case len(lengths) < r.N:
		late = errors.New(reply.ErrDuplicate)
	case r.Cost > smallest:
		late = errors.New(reply.ErrTooCostly)
	}
	r.Shards = int(min(int64(r.Shards), smallest))
	r.Key = shard.AppendName(nil, r.Key, r.Shadow)
	return r, after, late, nil
}

// between parses an integer from lo to hi.
func between(word []byte, lo, hi int64) (int64, bool) {
	if !integerForm.Match(word) {
		return 0, false
	}
	n, _ := new(big.Int).SetString(string(word), 10)
	return n.Int64(), n.Cmp(big.NewInt(lo)) >= 0 && n.Cmp(big.NewInt(hi)) <= 0
}
