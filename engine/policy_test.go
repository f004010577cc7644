package engine

import (
	"testing"

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
		require.Equal(t, c.want, r.policy(rules, PolicyLocal), c.key)
	}
}

// Where state is kept here, rules answer for keys that find no room.
func TestPolicyRulesOfEmbedded(t *testing.T) {
	e := newEmbedded(EmbeddedConfig{MaxMemory: 1, Rules: []PolicyRule{{"open:*", PolicyOpen}, {"error:*", PolicyError}}})
	require.True(t, one(e, slide("open:1", 1, 1000, 1)).Allowed)
	require.ErrorContains(t, one(e, slide("error:1", 1, 1000, 1)).Err, "UNAVAILABLE embedded: memory is full")
	closed := one(e, slide("other", 1, 1000, 1))
	require.False(t, closed.Allowed)
	require.EqualValues(t, -1, closed.Remaining)
}
