package decisionlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateHoldsInEachSecond(t *testing.T) {
	t.Parallel()
	r := rate{most: 3}
	for _, row := range []struct {
		at   time.Duration
		want bool
	}{
		{0, true}, {1, true}, {time.Second - 1, true}, {time.Second - 1, false},
		{time.Second, true}, {time.Second, true}, {0, true}, {time.Second, false}, // a late one counts in the second that has begun
		{90 * time.Minute, true},
	} {
		require.Equal(t, row.want, r.take(row.at), row)
	}
}
