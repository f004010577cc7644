// Command redis_rate is the adapter of github.com/go-redis/redis_rate: GCRA in a Lua script,
// called by go-redis. The burst is the limit, as its own PerSecond and PerMinute have it.
package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/tests/peers/caller"
)

func main() {
	caller.Main(func(workers int) []caller.Ask {
		limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: os.Getenv("PEER_REDIS"), PoolSize: workers}))
		ask := func(key string, limit, window, cost int) (bool, time.Duration, error) {
			per := redis_rate.Limit{Rate: limit, Burst: limit, Period: time.Duration(window) * time.Millisecond}
			result, err := limiter.AllowN(context.Background(), key, per, cost)
			if err != nil {
				return false, 0, err
			}
			return result.Allowed > 0, result.RetryAfter, nil
		}
		return slices.Repeat([]caller.Ask{ask}, workers)
	})
}
