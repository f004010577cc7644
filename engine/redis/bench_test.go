package redis

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// nodeCPU returns the seconds of CPU that a node has used.
func nodeCPU(s *redistest.Server) float64 {
	info := s.Client.Info(context.Background(), "cpu").Val()
	sum := 0.0
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([\d.]+)`).FindAllStringSubmatch(info, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		sum += v
	}
	return sum
}

// BenchmarkRedis decides over a real node: 16 connections, each with pipelines of
// 16. It reports the node's CPU beside the time.
func BenchmarkRedis(b *testing.B) {
	for _, kind := range []limit.Kind{limit.Slide, limit.Counter, limit.Fixed} {
		for _, keys := range []int{1, 100_000} {
			b.Run(fmt.Sprintf("%s/keys=%d/pipeline=16", kind, keys), func(b *testing.B) {
				s := redistest.Start(b)
				e := openAt(b, nil, s)
				const connections, pipeline = 16, 16
				template := conformance.Request(kind, "", 100, 60_000)
				if keys == 1 {
					template.Windows[0].Limit = limit.MaxLimit
				}
				b.ReportAllocs()
				before := nodeCPU(s)
				b.ResetTimer()
				var wg sync.WaitGroup
				for c := range connections {
					wg.Add(1)
					go func() { // for its share of the requests
						defer wg.Done()
						var p engine.Pipeline
						names := make([][]byte, pipeline)
						seed := uint64(c)
						for n := 0; n < b.N/connections; n += pipeline {
							p.Reset()
							for i := range pipeline {
								seed = seed*6364136223846793005 + 1442695040888963407
								names[i] = fmt.Appendf(names[i][:0], "k:%012d", (seed>>33)%uint64(keys))
								r := p.Add()
								*r = template
								r.Key = names[i]
							}
							e.Do(&p)
						}
					}()
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric((nodeCPU(s)-before)*1e6/float64(b.N), "node-us/op")
			})
		}
	}
}
