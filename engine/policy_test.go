package engine

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// A request's own FAIL comes before rules, the first rule that matches before the
// others, and all of them before the configuration's policy.
func TestPolicyPrecedence(t *testing.T) {
	rules := []PolicyRule{{"api:*", PolicyOpen}, {"api:slow:*", PolicyError}, {"mail:?", PolicyError}}
	for _, c := range []struct {
		key  string
		fail Policy
		want Policy
	}{
		{"api:slow:1", PolicyDefault, PolicyOpen},
		{"api:slow:1", PolicyClosed, PolicyClosed},
		{"mail:7", PolicyDefault, PolicyError},
		{"mail:77", PolicyDefault, PolicyLocal},
	} {
		r := Request{Key: []byte(c.key), Fail: c.fail}
		require.Equal(t, c.want, r.PolicyFor(rules, PolicyLocal), c.key)
	}
}

func TestPoliciesDecideInPlaceOfANode(t *testing.T) {
	r := Request{Spec: limit.Spec{N: 1, Windows: [limit.MaxWindows]limit.Window{{Limit: 7}}}}
	require.Equal(t, limit.Decision{Allowed: true, Limit: 7, Remaining: -1}, PolicyOpen.Decide(&r, 30))
	require.Equal(t, limit.Decision{Limit: 7, Remaining: -1, RetryAfter: 30, ResetAfter: 30}, PolicyClosed.Decide(&r, 30))
	require.EqualValues(t, 1, PolicyClosed.Decide(&r, 0).RetryAfter)
	require.Equal(t, "local", PolicyLocal.String())
}
