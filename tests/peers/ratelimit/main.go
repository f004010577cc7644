// Command ratelimit is the adapter of envoyproxy/ratelimit: it asks a running server by gRPC, as
// Envoy does, with a connection for each worker. Its windows are a second, a minute, an
// hour or a day.
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
	"strings"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var units = map[int]envoy.RateLimitUnit{
	1000: envoy.RateLimitUnit_SECOND, 60_000: envoy.RateLimitUnit_MINUTE,
	3_600_000: envoy.RateLimitUnit_HOUR, 86_400_000: envoy.RateLimitUnit_DAY,
}

// configured are the limits that runtime/config/limits.yaml names.
var configured = []string{"100/second", "100/minute"}

func main() {
	if os.Args[1] == "load" {
		load(number(2), number(3), number(4), number(5))
		return
	}
	ask()
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func dial() ratelimit.RateLimitServiceClient {
	c, err := grpc.NewClient(os.Getenv("PEER_SERVER"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return ratelimit.NewRateLimitServiceClient(c)
}

func request(key string, limit, ms, cost int) (*ratelimit.RateLimitRequest, error) {
	unit, ok := units[ms]
	if !ok {
		return nil, fmt.Errorf("a window is a second, a minute, an hour or a day, not %d ms", ms)
	}
	name := fmt.Sprintf("%d/%s", limit, strings.ToLower(unit.String()))
	d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: name, Value: key}}}
	if !slices.Contains(configured, name) {
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(limit), Unit: unit}
	}
	return &ratelimit.RateLimitRequest{Domain: "peers", Descriptors: []*common.RateLimitDescriptor{d}, HitsAddend: uint32(cost)}, nil
}

func ask() {
	client := dial()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var key string
		var limit, ms, cost int
		if _, err := fmt.Sscan(lines.Text(), &key, &limit, &ms, &cost); err != nil {
			log.Fatal(err)
		}
		fmt.Println(one(client, key, limit, ms, cost))
	}
}

func one(client ratelimit.RateLimitServiceClient, key string, limit, ms, cost int) string {
	r, err := request(key, limit, ms, cost)
	if err != nil {
		return "error " + err.Error()
	}
	response, err := client.ShouldRateLimit(context.Background(), r)
	switch {
	case err != nil:
		return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
	case response.OverallCode == ratelimit.RateLimitResponse_OK:
		return "1 0"
	}
	return fmt.Sprint("0 ", response.Statuses[0].DurationUntilReset.AsDuration().Milliseconds())
}

// load asks about random keys with so many workers for as many seconds as each line says.
func load(workers, keys, limit, ms int) {
	clients := make([]ratelimit.RateLimitServiceClient, workers)
	for i := range clients {
		clients[i] = dial()
	}
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
		for _, client := range clients {
			wg.Go(func() {
				var mine []time.Duration
				yes, wrong := 0, 0
				for at := time.Now(); at.Before(end); {
					r, err := request(fmt.Sprintf("key:%012d", rand.IntN(keys)), limit, ms, 1)
					if err != nil {
						log.Fatal(err)
					}
					response, err := client.ShouldRateLimit(context.Background(), r)
					if err != nil {
						wrong++
					} else if response.OverallCode == ratelimit.RateLimitResponse_OK {
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
