package testbed

import (
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

// Each script admits as many requests as its limit says.
func TestScriptsHoldTheirLimits(t *testing.T) {
	bed, err := Open(t.Context(), "")
	require.NoError(t, err)
	defer bed.Close()
	node, err := bed.Redis(nil)
	require.NoError(t, err)
	for script, args := range map[string][]string{
		"log": {"3", "3600000"}, "list": {"3", "3600000"}, "counter": {"3", "3600000"}, "strings": {"3", "3600000"}, "fixed": {"3", "3600000"},
		"lists": {"9", "7200000", "3", "3600000"}, "counters": {"9", "7200000", "3", "3600000"},
		"gcra": {"2", "3", "3600"}, // 2 more than one at once
	} {
		admitted := 0
		for range 6 {
			reply, err := traffic.Ask(node.Address(), bed.Eval(script, script, args...)...)
			require.NoError(t, err, script)
			if strings.HasPrefix(reply, "1") {
				admitted++
			}
		}
		require.Equal(t, 3, admitted, script)
	}
	keys, err := traffic.Ask(node.Address(), "KEYS", "*")
	require.NoError(t, err)
	require.Len(t, strings.Fields(keys), len(bed.digests), "each script has a test and one key")
	for key := range strings.FieldsSeq(keys) {
		ttl, err := traffic.Ask(node.Address(), "TTL", key)
		require.NoError(t, err)
		require.NotEqual(t, "-1", ttl, "%s expires", key)
	}
}
