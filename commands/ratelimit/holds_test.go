package ratelimit

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/proxytest"
)

func TestLinesAboutHoldsParseToRequests(t *testing.T) {
	a := engine.DigestOf([]byte("a"))
	reserve := func(ttl, cost int64, change func(r *engine.Request)) engine.Request {
		r := engine.Request{Key: []byte("k"), ID: []byte("a"), Spec: limit.Spec{Kind: limit.Slide, N: 1, Cost: cost, Param: 1}, Hold: &engine.Hold{ID: a, TTL: ttl}}
		r.Windows[0] = limit.Window{Limit: 5, Length: 60_000}
		if change != nil {
			change(&r)
		}
		return r
	}
	acquire := func(ttl, cost int64) engine.Request {
		r := engine.Request{Key: []byte("k"), ID: []byte("a"), Spec: limit.Spec{Kind: limit.Concurrency, N: 1, Cost: cost, Param: 1}, Hold: &engine.Hold{ID: a, TTL: ttl, Release: true}}
		r.Windows[0] = limit.Window{Limit: 5}
		return r
	}
	for line, want := range map[string]engine.Request{
		"RL.RESERVE k 5 60 COST 2 ID a":                  reserve(60_000, 2, nil),
		"rl.reserve k 5 60 id a cost 0":                  reserve(60_000, 0, nil),
		"RL.RESERVE k 5 60 COST 5 ID a TTL 1ms":          reserve(1, 5, nil),
		"RL.RESERVE k 5 60 COST 5 ID a TTL 1m":           reserve(60_000, 5, nil),
		"RL.RESERVE k 5 60 COST 1 ID a LAPSE charge":     reserve(60_000, 1, nil),
		"RL.RESERVE k 5 20 COST 1 ID a":                  reserve(20_000, 1, func(r *engine.Request) { r.Windows[0].Length = 20_000 }),
		"RL.RESERVE k 5 60 LAPSE RELEASE COST 1 ID a":    reserve(60_000, 1, func(r *engine.Request) { r.Hold.Release = true }),
		"RL.RESERVE k 5 60 COST 1 FAIL LOCAL ID a":       reserve(60_000, 1, func(r *engine.Request) { r.Fail = engine.FailLocal }),
		"RL.RESERVE k 5 60 9 1h COST 1 ID a TTL 3600":    reserve(3_600_000, 1, func(r *engine.Request) { r.N, r.Windows[1] = 2, limit.Window{Limit: 9, Length: 3_600_000} }),
		"RL.RESERVE k 5 60 9 1h COST 1 ID a":             reserve(60_000, 1, func(r *engine.Request) { r.N, r.Windows[1] = 2, limit.Window{Limit: 9, Length: 3_600_000} }),
		`RL.RESERVE "k\xffs" 5 60 COST 1 ID a`:           reserve(60_000, 1, func(r *engine.Request) { r.Key = []byte("k\xffs\xffk") }),
		"RL.SETTLE k a 7":                                {Op: engine.OpSettle, Key: []byte("k"), ID: []byte("a"), Spec: limit.Spec{Cost: 7}, Hold: &engine.Hold{ID: a}},
		"RL.ACQUIRE k 5 ID a":                            acquire(30_000, 1),
		"RL.ACQUIRE k 5 COST 5 ID a TTL 366d":            acquire(limit.MaxWindow, 5),
		"RL.ACQUIRE k 5 CONN ID a COST 0 TTL 1":          acquire(1000, 0),
		"RL.RENEW k a":                                   {Op: engine.OpRenew, Key: []byte("k"), ID: []byte("a"), Spec: limit.Spec{Kind: limit.Concurrency}, Hold: &engine.Hold{ID: a, TTL: 30_000, Release: true}},
		"RL.RENEW k a ttl 5ms":                           {Op: engine.OpRenew, Key: []byte("k"), ID: []byte("a"), Spec: limit.Spec{Kind: limit.Concurrency}, Hold: &engine.Hold{ID: a, TTL: 5, Release: true}},
		"RL.RELEASE k a":                                 {Op: engine.OpSettle, Key: []byte("k"), ID: []byte("a"), Spec: limit.Spec{Kind: limit.Concurrency}, Hold: &engine.Hold{ID: a}},
		"RL.SLIDE k 5 60 ONCE a ID x":                    reserve(0, 1, func(r *engine.Request) { r.ID, r.Hold.Once = []byte("x"), true }),
		"RL.SLIDE k 5 60 ID x ONCE a COST 0 SHARDS 2":    reserve(0, 0, func(r *engine.Request) { r.ID, r.Hold.Once, r.Shards = []byte("x"), true, 2 }),
		"RL.FIXED k 5 60 ONCE " + "a" + " ID " + "ONCE ": reserve(0, 1, func(r *engine.Request) { r.Kind, r.ID, r.Hold.Once = limit.Fixed, []byte("ONCE"), true }),
	} {
		got, msg := parseLine(proxytest.Words(t, line))
		require.Empty(t, msg, line)
		require.Equal(t, want, got, line)
	}
}

// The 64 bytes of an id may be any.
func TestIDsAreUpTo64AnyBytes(t *testing.T) {
	id := strings.Repeat("\x00\xff\r\n", 16)
	for _, words := range [][]string{
		{"RL.SLIDE", "k", "5", "60", "ONCE", id}, {"RL.RESERVE", "k", "5", "60", "COST", "1", "ID", id}, {"RL.SETTLE", "k", id, "1"},
		{"RL.ACQUIRE", "k", "5", "ID", id}, {"RL.RENEW", "k", id}, {"RL.RELEASE", "k", id},
	} {
		var args [][]byte
		for _, w := range words {
			args = append(args, []byte(w))
		}
		r, msg := parseLine(args)
		require.Empty(t, msg, words[0])
		require.Equal(t, engine.DigestOf([]byte(id)), r.Hold.ID)
	}
}

func TestOnlyTheOptionCONNTiesALease(t *testing.T) {
	c := find([]byte("RL.ACQUIRE"))
	for line, want := range map[string]bool{
		"RL.ACQUIRE k 5 ID a": false, "RL.ACQUIRE k 5 ID CONN": false, "RL.ACQUIRE CONN 5 ID CONN COST 1": false,
		"RL.ACQUIRE k 5 ID a CONN": true, "RL.ACQUIRE k 5 conn ID a": true, "RL.ACQUIRE k 5 TTL 5 ID CONN Conn FAIL OPEN": true,
	} {
		args := proxytest.Words(t, line)
		_, msg := parse(c, args)
		require.Empty(t, msg, line)
		require.Equal(t, want, c.Tied(args), line)
	}
}

// Multi-key requests, as results of an engine.
func TestRepliesToMultiKeyRequestsAreInTheOrderOfTheKeys(t *testing.T) {
	away := &engine.Unavailable{Node: "a:1", Why: "no answer in 50ms"}
	decided := func(allowed bool, n int64) engine.Result {
		return engine.Result{Decision: limit.Decision{Allowed: allowed, Limit: 5, Remaining: n}}
	}
	const line = "RL.SLIDE a 5 60 SHADOW AND b 5 60 AND c 5 60" // the engine gets b, c and a's shadow
	for _, c := range []struct {
		results []engine.Result
		want    string
	}{
		{[]engine.Result{decided(true, 2), decided(true, 3), decided(true, 1)}, "*3 *5 :1 :5 :1 :0 :0 *5 :1 :5 :2 :0 :0 *5 :1 :5 :3 :0 :0 "},
		{[]engine.Result{decided(true, 2), decided(true, 3), {Decision: limit.Decision{Limit: 5, RetryAfter: 7}}}, "*3 *5 :1 :5 :0 :7 :0 *5 :1 :5 :2 :0 :0 *5 :1 :5 :3 :0 :0 "},
		{[]engine.Result{decided(false, 2), decided(false, 3), decided(true, 1)}, "*3 *5 :0 :5 :1 :0 :0 *5 :0 :5 :2 :0 :0 *5 :0 :5 :3 :0 :0 "},
		{[]engine.Result{decided(true, 2), decided(true, 3), {Err: away}}, "*3 *5 :1 :5 :-1 :0 :0 *5 :1 :5 :2 :0 :0 *5 :1 :5 :3 :0 :0 "},
		{[]engine.Result{decided(true, 2), {Err: away, Fail: engine.FailError}, decided(true, 1)}, "-UNAVAILABLE a:1: no answer in 50ms "},
	} {
		requests, msg := parseAll(find([]byte("RL.SLIDE")), proxytest.Words(t, line))
		require.Empty(t, msg)
		require.Equal(t, []string{"b", "c", "a\xffs"}, []string{string(requests[0].Key), string(requests[1].Key), string(requests[2].Key)})
		require.Equal(t, []int{1, 0, 0}, []int{requests[0].MoreKeys, requests[1].MoreKeys, requests[2].MoreKeys})
		got := find([]byte("RL.SLIDE")).Reply(nil, 2, requests, c.results)
		require.Equal(t, c.want, strings.ReplaceAll(string(got), "\r\n", " "))
	}
}

// FuzzHolds gives the commands about holds any words. What is accepted is within the bounds that engines rely on.
func FuzzHolds(f *testing.F) {
	for _, line := range []string{
		"RL.RESERVE\x00k\x005\x0060\x00COST\x002\x00ID\x00a\x00TTL\x005\x00LAPSE\x00RELEASE\x00FAIL\x00LOCAL",
		"RL.RESERVE\x00k\x005\x0060\x006\x001h\x00ID\x00COST\x00COST\x002",
		"RL.SETTLE\x00k\x00a\x001000000000000",
		"RL.ACQUIRE\x00k\x005\x00ID\x00a\x00COST\x005\x00TTL\x00366d\x00CONN",
		"RL.RENEW\x00k\x00a\x00TTL\x001ms",
		"RL.RELEASE\x00k\x00a\x00b\x00a",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		args := bytes.Split(input, []byte{0})
		c := find(args[0])
		if c == nil || (c.Name != "rl.reserve" && c.Name != "rl.settle" && c.Name != "rl.acquire" && c.Name != "rl.renew" && c.Name != "rl.release") {
			return
		}
		requests, msg := parseAll(c, args)
		if msg != "" {
			require.True(t, strings.HasPrefix(msg, "ERR "), msg)
			require.NotContains(t, msg, "\n")
			return
		}
		require.NotEmpty(t, requests)
		for _, r := range requests {
			require.NotNil(t, r.Hold)
			require.NotZero(t, r.Hold.ID)
			require.True(t, 0 < len(r.ID) && len(r.ID) <= engine.MaxID)
			require.True(t, 0 <= r.Cost && r.Cost <= limit.MaxLimit)
			require.False(t, r.Hold.Once)
			most := int64(limit.MaxWindow)
			for _, w := range r.Limits() {
				require.LessOrEqual(t, r.Cost, w.Limit)
			}
			if c.Name == "rl.reserve" {
				most = r.Longest()
			}
			require.LessOrEqual(t, r.Hold.TTL, most)
			require.Equal(t, r.Op != engine.OpSettle, r.Hold.TTL > 0)
		}
		require.Len(t, c.Keys.Of(args), 1)
	})
}
