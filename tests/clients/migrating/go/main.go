// Command migrating asks eight times for a limit of five an hour with redis_rate. migrants.go says what the line of
// its output means.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("RL_HOST") + ":" + os.Getenv("RL_PORT")})
	limiter, admitted := redis_rate.NewLimiter(client), 0
	for range 8 {
		r, err := limiter.Allow(context.Background(), "k", redis_rate.PerHour(5))
		if err != nil {
			fmt.Println("redis_rate error", err)
			return
		}
		admitted += r.Allowed
	}
	fmt.Println("redis_rate", admitted, "-")
}
