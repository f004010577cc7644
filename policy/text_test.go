package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// parse returns the policies of a text, which must be valid.
func parse(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Parse(text)
	require.NoError(t, err, text)
	return s
}

func TestTextIsCanonical(t *testing.T) {
	s := parse(t, `
		# plans
		policy web fixed 5 86400 7 7200s fail open SHARDS 16
		policy api SLIDE 100 60
		policy-override api "with \"blanks\" \x00\xff*" blocked
		policy-override api tenant:42 500 1500ms 10 24h

		policy c.1_-Z Counter 10 120 STRICT buckets 6 fail LOCAL
		policy-override api tenant:* UNLIMITED
	`)
	want := `policy api SLIDE 100 1m
policy-override api tenant:* UNLIMITED
policy-override api tenant:42 500 1500ms 10 1d
policy-override api "with \"blanks\" \x00` + "\xff" + `*" BLOCKED
policy c.1_-Z COUNTER 10 2m BUCKETS 6 STRICT FAIL LOCAL
policy web FIXED 5 1d 7 2h SHARDS 16 FAIL OPEN
`
	require.Equal(t, want, s.Text())
	require.Equal(t, s, parse(t, want))
	require.Equal(t, 3, s.Overrides())
	c := s.Find([]byte("c.1_-Z"))
	require.Equal(t, &Policy{
		Name: "c.1_-Z", Kind: limit.Counter, Limits: []limit.Window{{Limit: 10, Length: 120_000}}, Param: 6, Manner: limit.Strict,
		Fail: engine.FailLocal, size: len("policy c.1_-Z COUNTER 10 2m BUCKETS 6 STRICT FAIL LOCAL\n"),
	}, c)
	require.Nil(t, s.Find([]byte("API")))
}

func TestErrorsGiveTheLineAndTheWrongWord(t *testing.T) {
	for text, want := range map[string]string{
		"polic api SLIDE 5 60":          "line 1: a line must begin with policy or policy-override; it was 'polic'",
		"\n# x\n\npolicy api SLIDE 5 x": "line 4: invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d; it was 'x'",
		`policy "api`:                   "line 1: unbalanced quotes",
		"policy":                        "line 1: policy name must be 1 to 64 letters, digits, _, . and -; nothing was given",
		"policy a:b SLIDE 5 60":         "line 1: policy name must be 1 to 64 letters, digits, _, . and -; it was 'a:b'",
		`policy "" SLIDE 5 60`:          "line 1: policy name must be 1 to 64 letters, digits, _, . and -; it was ''",
		"policy " + strings.Repeat("a", 65) + " SLIDE 5 60": "line 1: policy name must be 1 to 64 letters, digits, _, . and -; it was '" + strings.Repeat("a", 65) + "'",
		"policy api":                                                                       "line 1: syntax error: a policy has an algorithm, a limit and a window",
		"policy api SLIDE":                                                                 "line 1: syntax error: a policy has an algorithm, a limit and a window",
		"policy api GCRA 5 60":                                                             "line 1: syntax error: the algorithm must be " + ratelimit.Algorithms() + "; it was 'GCRA'",
		"policy api SLIDE 5":                                                               "line 1: syntax error: limit 5 has no window",
		"policy api SLIDE x 60":                                                            "line 1: limit must be an integer between 1 and 1000000000000; it was 'x'",
		"policy api SLIDE 5 60 6":                                                          "line 1: syntax error: limit 6 has no window",
		"policy api SLIDE 5 60 5 1m":                                                       "line 1: duplicate window: 60 and 1m are the same",
		"policy api SLIDE 5 60 FAIL maybe":                                                 "line 1: syntax error: FAIL must be OPEN, CLOSED, LOCAL or ERROR; it was 'maybe'",
		"policy api SLIDE 5 60 SHARDS 1025":                                                "line 1: shards must be an integer between 1 and 1024; it was '1025'",
		"policy api COUNTER 5 10ms BUCKETS 11":                                             "line 1: buckets must not exceed the window's milliseconds; buckets was 11, the window 10ms",
		"policy api SLIDE 5 60\npolicy api FIXED 5 60":                                     "line 2: policy 'api' is set twice",
		"policy-override api x 5 60\npolicy api SLIDE 5 60":                                "line 1: no such policy 'api' in the preceding lines",
		"policy api SLIDE 5 60\npolicy-override":                                           "line 2: policy name must be 1 to 64 letters, digits, _, . and -; nothing was given",
		"policy api SLIDE 5 60\npolicy-override api":                                       "line 2: pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; nothing was given",
		"policy api SLIDE 5 60\npolicy-override api a*b 5 60":                              "line 2: pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; it was 'a*b'",
		"policy api SLIDE 5 60\npolicy-override api **  5 60":                              "line 2: pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; it was '**'",
		"policy api SLIDE 5 60\npolicy-override api \"\"  5 60":                            "line 2: pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; it was ''",
		"policy api SLIDE 5 60\npolicy-override api x":                                     "line 2: syntax error: an override has limits and windows, or UNLIMITED or BLOCKED",
		"policy api SLIDE 5 60\npolicy-override api x LIMITED":                             "line 2: syntax error: an override has limits and windows, or UNLIMITED or BLOCKED; it was 'LIMITED'",
		"policy api SLIDE 5 60\npolicy-override api x BLOCKED 5":                           "line 2: syntax error: nothing follows UNLIMITED or BLOCKED; it was '5'",
		"policy api SLIDE 5 60\npolicy-override api x 5 60 FAIL OPEN":                      "line 2: syntax error: unknown option 'FAIL'; expected another limit",
		"policy api SLIDE 5 60\npolicy-override api x 5 1 5 1000ms":                        "line 2: duplicate window: 1 and 1000ms are the same",
		"policy api SLIDE 5 60\npolicy-override api x 5 1\npolicy-override api x 5 2":      "line 3: pattern 'x' of policy 'api' is set twice",
		"policy api COUNTER 5 60 BUCKETS 20\npolicy-override api x 5 19ms":                 "line 2: buckets must not exceed the window's milliseconds; buckets was 20, the window 19ms",
		"policy api SLIDE 5 60\npolicy-override api " + strings.Repeat("k", 4093) + " 5 1": "line 2: key must be 1 to 4096 bytes; with the policy's name the pattern had 4097",
	} {
		s, err := Parse(text)
		require.EqualError(t, err, want, text)
		require.Nil(t, s)
	}
	// The options of a request are not those of a policy.
	for _, option := range []string{"COST 1", "ID x"} {
		_, err := Parse("policy api SLIDE 5 60 " + option)
		require.ErrorContains(t, err, "line 1: syntax error: unknown option '"+strings.Fields(option)[0]+"'; expected SHARDS")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("policy api SLIDE 100 60 SHARDS 4 FAIL OPEN\npolicy-override api tenant:* 5 1s\npolicy-override api \"a \\x00\" BLOCKED\n")
	f.Add("policy c COUNTER 5 60 7 1h BUCKETS 6 STRICT\n# x\n\npolicy-override c * unlimited")
	f.Add("policy a FIXED 1 1ms\npolicy-override a '\\'' 5 366d")
	f.Add("policy a SLIDE 1 1 SHADOW")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := Parse(s.Text())
		require.NoError(t, err)
		require.Equal(t, s, again)
		require.Equal(t, s.Text(), again.Text())
		require.Len(t, s.Text(), s.size)
	})
}

func TestOrderIsAnOptionOfPolicies(t *testing.T) {
	for words, want := range map[string]string{
		"ORDER 2,1":        "policy a FIXED 5 1m ORDER 2,1\n",
		"order 3,1,2":      "policy a FIXED 5 1m ORDER 3,1,2\n",
		"ORDER 1,2":        "policy a FIXED 5 1m\n",
		"ORDER 1":          "policy a FIXED 5 1m\n",
		"ORDER 2,1 SHADOW": "policy a FIXED 5 1m SHADOW ORDER 2,1\n",
	} {
		s, err := Parse("policy a FIXED 5 60 " + words)
		require.NoError(t, err, words)
		require.Equal(t, want, s.Text())
	}
	for words, want := range map[string]string{
		"ORDER":                   "option ORDER has no value",
		"ORDER 2":                 "ORDER must have the numbers from 1 to n, at most 16, each once, such as 2,1; it was '2'",
		"ORDER 1,1":               "it was '1,1'",
		"ORDER 0,1":               "it was '0,1'",
		"ORDER ,":                 "it was ','",
		"ORDER 2,1 ORDER 2,1":     "ORDER",
		"ORDER 17,2":              "it was '17,2'",
		"ORDER 1,2,3,4,-5":        "it was '1,2,3,4,-5'",
		"ORDER 2,1,9223372036854": "it was",
	} {
		_, err := Parse("policy a FIXED 5 60 " + words)
		require.ErrorContains(t, err, want, words)
	}
}
