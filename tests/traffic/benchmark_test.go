package traffic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTableOfRedisBenchmark(t *testing.T) {
	f, err := readTable("WARNING: no CONFIG\n" +
		`"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n" +
		`"RL.SLIDE k:__rand_int__ 100 60","1234.50","0.3","0.1","0.250","0.4","0.700","2.0"` + "\n")
	require.NoError(t, err)
	require.Equal(t, Figures{Rate: 1234.5, P50: 250, P99: 700}, f)
	for _, bad := range []string{"Error from server: NOSCRIPT", `"test","rps"` + "\n", `"test","rps"` + "\n" + `"PING","1"` + "\n"} {
		_, err := readTable(bad)
		require.Error(t, err)
	}
}
