package engine

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// A request's own FAIL takes precedence over the rules, the first matching rule over the
// others, and all of them over the configuration's policy.
func TestPolicyPrecedence(t *testing.T) {
	rules := []FailRule{{"api:*", FailOpen}, {"api:slow:*", FailError}, {"mail:?", FailError}}
	for _, c := range []struct {
		key  string
		fail FailPolicy
		want FailPolicy
	}{
		{"api:slow:1", FailDefault, FailOpen},
		{"api:slow:1", FailClosed, FailClosed},
		{"mail:7", FailDefault, FailError},
		{"mail:77", FailDefault, FailLocal},
		{"mail:7\xffs", FailDefault, FailError},     // the shadow of mail:7
		{"mail:\xffs\xffk", FailDefault, FailLocal}, // the key mail:\xffs, of two bytes more
	} {
		r := Request{Key: []byte(c.key), Fail: c.fail}
		require.Equal(t, c.want, r.FailPolicyFor(rules, FailLocal), c.key)
	}
}

func TestPoliciesDecideInPlaceOfANode(t *testing.T) {
	r := Request{Spec: limit.Spec{N: 1, Windows: [limit.MaxWindows]limit.Window{{Limit: 7}}}}
	require.Equal(t, limit.Decision{Allowed: true, Limit: 7, Remaining: -1}, FailOpen.Decide(&r, 30))
	require.Equal(t, limit.Decision{Limit: 7, Remaining: -1, RetryAfter: 30, ResetAfter: 30}, FailClosed.Decide(&r, 30))
	require.EqualValues(t, 1, FailClosed.Decide(&r, 0).RetryAfter)
	require.Equal(t, "local", FailLocal.String())
}

func TestFailPoliciesAreParsedInAnyCase(t *testing.T) {
	for text, want := range map[string]FailPolicy{
		"OPEN": FailOpen, "closed": FailClosed, "Local": FailLocal, "error": FailError,
	} {
		p, ok := ParseFailPolicy([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, p, text)
	}
	for _, text := range []string{"", "default", "ope", "opened", "cloſed"} {
		_, ok := ParseFailPolicy(text)
		require.False(t, ok, text)
	}
}
