// Command redis_rate is the adapter of github.com/go-redis/redis_rate: GCRA in a Lua script,
// called by go-redis. The burst is the limit, as its own PerSecond and PerMinute have it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	workers := 1
	if os.Args[1] == "load" {
		workers = number(2)
	}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("PEER_REDIS"), PoolSize: workers})
	limiter := redis_rate.NewLimiter(client)
	if os.Args[1] == "load" {
		load(limiter, workers)
		return
	}
	ask(limiter)
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func per(limit, ms int) redis_rate.Limit {
	return redis_rate.Limit{Rate: limit, Burst: limit, Period: time.Duration(ms) * time.Millisecond}
}

func ask(limiter *redis_rate.Limiter) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var key string
		var limit, ms, cost int
		if _, err := fmt.Sscan(lines.Text(), &key, &limit, &ms, &cost); err != nil {
			log.Fatal(err)
		}
		result, err := limiter.AllowN(context.Background(), key, per(limit, ms), cost)
		switch {
		case err != nil:
			fmt.Println("error", err)
		case result.Allowed > 0:
			fmt.Println("1 0")
		default:
			// Rounded up: a whole millisecond that is long enough.
			fmt.Println("0", (result.RetryAfter + time.Millisecond - 1).Milliseconds())
		}
	}
}

// load asks about random keys with so many workers for as many seconds as each line says.
func load(limiter *redis_rate.Limiter, workers int) {
	keys, limit := number(3), per(number(4), number(5))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		seconds, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			log.Fatal(err)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		var took []time.Duration
		allowed, errors := 0, 0
		began := time.Now()
		end := began.Add(time.Duration(seconds * float64(time.Second)))
		for range workers {
			wg.Go(func() {
				var mine []time.Duration
				yes, wrong := 0, 0
				for at := time.Now(); at.Before(end); {
					result, err := limiter.Allow(context.Background(), fmt.Sprintf("key:%012d", rand.IntN(keys)), limit)
					if err != nil {
						wrong++
					} else if result.Allowed > 0 {
						yes++
					}
					now := time.Now()
					mine = append(mine, now.Sub(at))
					at = now
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, mine...)
				allowed += yes
				errors += wrong
			})
		}
		wg.Wait()
		elapsed := time.Since(began).Seconds()
		slices.Sort(took)
		us := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
			"decisions": len(took), "allowed": allowed, "errors": errors, "seconds": elapsed, "p50_us": us(0.5), "p99_us": us(0.99),
		})
	}
}
