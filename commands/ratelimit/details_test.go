package ratelimit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// fromPolicy returns a request by a policy SLIDE 5 60.
func fromPolicy(name string) engine.Request {
	r := engine.Request{Key: []byte(name + ":k"), Policy: name, Details: true}
	r.Kind, r.N, r.Windows[0] = limit.Slide, 1, limit.Window{Limit: 5, Length: 60_000}
	return r
}

// plainMap returns the words of a reply to DETAILS up to the keys of AND, without the lengths of its strings.
func plainMap(t *testing.T, requests []engine.Request, results []engine.Result) string {
	t.Helper()
	reply := string(replyDetails(nil, 2, requests, results))
	var words []string
	for line := range strings.SplitSeq(reply, "\r\n") {
		if line != "" && line[0] != '$' {
			words = append(words, strings.TrimPrefix(line, ":"))
		}
	}
	text, _, _ := strings.Cut(strings.Join(words, " "), " keys")
	return text
}

// What a FAIL policy answers is not known to the node: what remains is -1, and the headers do not say it.
func TestDetailsOfFailAnswersHaveNoRemaining(t *testing.T) {
	r := fromPolicy("api")
	failed := func(p engine.FailPolicy) engine.Result { return engine.Result{Fail: p, Decision: p.Decide(&r, 250)} }
	local := engine.Result{Fail: engine.FailLocal, Decision: limit.Decision{Limit: 5, Remaining: -1, RetryAfter: 1500, ResetAfter: 1500}}
	const begin = "policy api key k limit 5 window-ms 60000 remaining -1 retry-after-ms "
	for want, res := range map[string]engine.Result{
		"*18 allowed 1 " + begin + `0 reset-after-ms 0 headers *2 RateLimit-Policy "api";q=5;w=60`:                     failed(engine.FailOpen),
		"*18 allowed 0 " + begin + `250 reset-after-ms 250 headers *4 RateLimit-Policy "api";q=5;w=60 Retry-After 1`:   failed(engine.FailClosed),
		"*18 allowed 0 " + begin + `1500 reset-after-ms 1500 headers *4 RateLimit-Policy "api";q=5;w=60 Retry-After 2`: local,
	} {
		require.Equal(t, want, plainMap(t, []engine.Request{r}, []engine.Result{res}))
	}
	r.Shadow = true
	require.Equal(t, "*18 allowed 1 "+begin+`0 reset-after-ms 0 headers *2 RateLimit-Policy "api";q=5;w=60`,
		plainMap(t, []engine.Request{r}, []engine.Result{{Fail: engine.FailError, Err: &engine.Unavailable{}}}))
	r.Shadow = false
	require.Equal(t, "-UNAVAILABLE a:1: gone", plainMap(t, []engine.Request{r},
		[]engine.Result{{Err: &engine.Unavailable{Node: "a:1", Why: "gone"}}}))
}

// With AND the figures are about one key, wherever the engine has its request.
func TestDetailsAreAboutTheKeyThatDecides(t *testing.T) {
	admits := func(remaining int64) engine.Result {
		return engine.Result{Decision: limit.Decision{Allowed: true, Limit: 5, Remaining: remaining}}
	}
	denies := func(wait int64) engine.Result {
		return engine.Result{Decision: limit.Decision{Limit: 5, RetryAfter: wait}}
	}
	for _, c := range []struct {
		results  [3]engine.Result // of the keys of policies a, b and c
		shadow   int              // the policy with SHADOW, from 1; 0: none
		deciding string
	}{
		{results: [3]engine.Result{admits(3), admits(2), admits(2)}, deciding: "allowed 1 policy b"},
		{results: [3]engine.Result{admits(3), admits(2), admits(1)}, deciding: "allowed 1 policy c"},
		{results: [3]engine.Result{denies(0), denies(7), denies(7)}, deciding: "allowed 0 policy b"},
		{results: [3]engine.Result{denies(9), denies(7), denies(8)}, deciding: "allowed 0 policy a"},
		{results: [3]engine.Result{denies(9), admits(3), admits(4)}, shadow: 1, deciding: "allowed 1 policy b"},
		{results: [3]engine.Result{denies(1), admits(4), denies(9)}, shadow: 3, deciding: "allowed 0 policy a"},
	} {
		for _, order := range [][3]int{{0, 1, 2}, {1, 2, 0}, {2, 1, 0}} { // as they come to the engine
			var requests []engine.Request
			var results []engine.Result
			for _, place := range order {
				r := fromPolicy([]string{"a", "b", "c"}[place])
				r.KeyNumber, r.Shadow = uint8(place+1), c.shadow == place+1
				requests, results = append(requests, r), append(results, c.results[place])
			}
			require.Contains(t, plainMap(t, requests, results), "*20 "+c.deciding+" key k ")
		}
	}
}
