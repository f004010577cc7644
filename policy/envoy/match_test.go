package envoy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/policy"
)

func TestNamesAreThoseOfTheDomainAndTheKeys(t *testing.T) {
	require.Equal(t, [2]string{"shop.user.path", "shop.user.path.shadow"}, Names("shop", []string{"user", "path"}))
	require.Equal(t, "eg-http.x_y-", Names("eg/http", []string{"x_y:"})[0])
	long := Names(strings.Repeat("d", 70), []string{"k"})
	other := Names(strings.Repeat("d", 70), []string{"l"})
	for i, name := range long {
		require.Len(t, name, policy.MaxName)
		require.NotEqual(t, name, other[i])
		require.Equal(t, i == 1, strings.HasSuffix(name, ".shadow"))
	}
}

// Whatever the values are, different ones have different keys, and each is one that a policy can have.
func TestDifferentValuesHaveDifferentKeys(t *testing.T) {
	natural, other := &policy.Policy{Name: "p"}, &policy.Policy{Name: "p", Order: []int{1, 0}}
	for _, c := range []struct {
		p      *policy.Policy
		values []string
		want   string
	}{
		{natural, []string{"a|%"}, "a|%"},
		{natural, []string{"a", "b"}, "a|b"},
		{natural, []string{"a|b", "c%"}, "a%7Cb|c%25"},
		{natural, []string{"", ""}, "|"},
		{natural, []string{""}, "%"},
		{natural, []string{"%"}, "%%"},
		{natural, []string{"%2F"}, "%%2F"},
		{other, []string{"a", "b"}, "b|a"},
	} {
		key, ok := Key(c.p, c.values)
		require.True(t, ok)
		require.Equal(t, c.want, key)
	}
	_, ok := Key(other, []string{"a"})
	require.False(t, ok)

	long := strings.Repeat("x", engine.MaxKey)
	first, _ := Key(natural, []string{long + "1"})
	second, _ := Key(natural, []string{long + "2"})
	require.NotEqual(t, first, second)
	require.True(t, strings.HasPrefix(first, strings.Repeat("x", 4000)), "so that it has the override of a prefix")
	var r engine.Request
	require.Empty(t, natural.Fill(&r, new(engine.Pipeline), []byte(first)))
}
