package main

import (
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

// What rlproxy is compared with does the work: each script admits as many as its limit.
func TestScriptsHoldTheirLimits(t *testing.T) {
	l := &lab{ctx: t.Context(), folder: t.TempDir(), shas: map[string]string{}}
	defer l.close()
	node, err := l.redis(nil)
	require.NoError(t, err)
	for script, args := range map[string][]string{
		"log": {"3", "3600000"}, "list": {"3", "3600000"}, "counter": {"3", "3600000"}, "strings": {"3", "3600000"}, "fixed": {"3", "3600000"},
		"lists": {"9", "7200000", "3", "3600000"}, "counters": {"9", "7200000", "3", "3600000"},
		"gcra": {"2", "3", "3600"}, // 2 more than one at once
	} {
		admitted := 0
		for range 6 {
			reply, err := traffic.Ask(node.address(), l.eval(script, script, args...)...)
			require.NoError(t, err, script)
			if strings.HasPrefix(reply, "1") {
				admitted++
			}
		}
		require.Equal(t, 3, admitted, script)
	}
	keys, err := traffic.Ask(node.address(), "KEYS", "*")
	require.NoError(t, err)
	require.Len(t, strings.Fields(keys), len(l.shas), "each script has a test and one key")
	for key := range strings.FieldsSeq(keys) {
		ttl, err := traffic.Ask(node.address(), "TTL", key)
		require.NoError(t, err)
		require.NotEqual(t, "-1", ttl, "%s expires", key)
	}
}
