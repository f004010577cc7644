package policies

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/policy"
)

func TestKeysOfAPatternHaveTheLimitsOfItsLongestPrefix(t *testing.T) {
	s, err := policy.Parse(strings.Join([]string{
		"policy p SLIDE 1 60",
		"policy-override p a* 2 60",
		"policy-override p ab* 3 60",
		"policy-override p abc 4 60",
		"policy-override p b* BLOCKED",
		"policy-override p x* UNLIMITED",
		"policy-override p * 9 60",
		"policy-override p 10.0.0.0/8 5 60",
		"policy-override p 10.1.0.0/16 6 60",
		"policy-override p 2001:db8::/32 7 60",
		"policy-override p ::/0 8 60",
	}, "\n"))
	require.NoError(t, err)
	p := s.Find([]byte("p"))
	for pattern, limit := range map[string]int64{
		"abc": 4, "abcd": 3, "abc*": 3, "ab*": 3, "ab": 3, "a*": 2, "a": 2, "ac*": 2, "*": 9, "c": 9, "b1": 0, "b*": 0, "xy*": 0,
		"10.0.0.0/8": 5, "10.1.2.0/24": 6, "10.1.2.3/32": 6, "10.1.2.3": 6, "10.2.0.0/16": 5, "2001:db8:1::/48": 7, "2001::/16": 8,
	} {
		limits := limitsOf(p, pattern)
		if limit == 0 {
			require.Empty(t, limits, pattern)
			continue
		}
		require.Len(t, limits, 1, pattern)
		require.Equal(t, limit, limits[0].Limit, pattern)
	}
}
