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

func TestStopClockStopsTheClockOfServerScriptsAndTimesToLive(t *testing.T) {
	s := StartClocked(t)
	at := time.UnixMilli(2_300_000_000_123)
	s.StopClock(at)
	s.Do("SET", "k", "v", "PX", 1000)
	require.Equal(t, "2300000000 123000", s.Do("EVAL", "return table.concat(redis.call('TIME'), ' ')", 0))
	s.StopClock(at.Add(999 * time.Millisecond))
	require.Equal(t, "1", s.Do("PTTL", "k"))
	s.StopClock(at.Add(1001 * time.Millisecond))
	require.Equal(t, "-2", s.Do("PTTL", "k"))
	s.StepClock(0)
	now, err := s.Client.Time(context.Background()).Result()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, 10*time.Second)
}
