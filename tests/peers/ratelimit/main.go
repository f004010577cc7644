// Command ratelimit is the adapter of envoyproxy/ratelimit: it asks a running server by gRPC, as
// Envoy does, with a connection for each worker. Its windows are a second, a minute, an
// hour or a day.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/rlproxy/rlproxy/tests/peers/caller"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var units = map[int]envoy.RateLimitUnit{
	1000: envoy.RateLimitUnit_SECOND, 60_000: envoy.RateLimitUnit_MINUTE,
	3_600_000: envoy.RateLimitUnit_HOUR, 86_400_000: envoy.RateLimitUnit_DAY,
}

// configured are the windows for which runtime/config/limits.yaml has a limit, of 100.
var configured = []string{"second", "minute"}

func main() {
	caller.Main(func(workers int) []caller.Ask {
		asks := make([]caller.Ask, workers)
		for i := range asks {
			asks[i] = asker(dial())
		}
		return asks
	})
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
	name := strings.ToLower(unit.String())
	d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: name, Value: key}}}
	if limit != 100 || !slices.Contains(configured, name) {
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(limit), Unit: unit}
	}
	return &ratelimit.RateLimitRequest{Domain: "peers", Descriptors: []*common.RateLimitDescriptor{d}, HitsAddend: uint32(cost)}, nil
}

func asker(client ratelimit.RateLimitServiceClient) caller.Ask {
	return func(key string, limit, window, cost int) (bool, time.Duration, error) {
		r, err := request(key, limit, window, cost)
		if err != nil {
			return false, 0, err
		}
		response, err := client.ShouldRateLimit(context.Background(), r)
		if err != nil {
			return false, 0, err
		}
		return response.OverallCode == ratelimit.RateLimitResponse_OK, response.Statuses[0].DurationUntilReset.AsDuration(), nil
	}
}
