package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStepClockMovesTheClockOfServerAndScripts(t *testing.T) {
	s := start(t, []Option{OwnClocks(t)})
	for _, ahead := range []time.Duration{0, time.Hour, -time.Minute, 0} {
		s.StepClock(ahead)
		now, err := s.Client.Time(context.Background()).Result()
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(ahead), now, 10*time.Second)
		seconds, err := s.Client.Eval(context.Background(), "return tonumber(redis.call('TIME')[1])", nil).Int64()
		require.NoError(t, err)
		require.WithinDuration(t, now, time.Unix(seconds, 0), 10*time.Second)
	}
}
