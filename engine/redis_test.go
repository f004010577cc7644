package engine

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// openTestRedis opens an engine on real nodes whose scripts go by the given clock.
func openTestRedis(t testing.TB, clock func() int64, nodes ...*redistest.Server) *Redis {
	t.Helper()
	config := RedisConfig{Timeout: 5 * time.Second, AskAlways: clock != nil}
	for _, n := range nodes {
		config.Backends = append(config.Backends, n.URL())
	}
	e, err := OpenRedis(config)
	require.NoError(t, err)
	e.clock = clock
	return e
}

func TestConformanceRedis(t *testing.T) {
	conformance(t, func(t *testing.T, clock func() int64) Engine {
		return openTestRedis(t, clock, redistest.Start(t))
	})
}

func TestConformanceRedisNodes(t *testing.T) {
	conformance(t, func(t *testing.T, clock func() int64) Engine {
		return openTestRedis(t, clock, redistest.Start(t), redistest.Start(t), redistest.Start(t))
	})
}
