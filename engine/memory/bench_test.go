package memory

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// The kinds of decisions for the allocation bounds and the benchmarks.
var kinds = []struct {
	name string
	make func(key string, most int64) engine.Request
}{
	{"slide", func(k string, most int64) engine.Request { return conformance.Request(limit.Slide, k, most, 60_000) }},
	{"counter", func(k string, most int64) engine.Request { return conformance.Request(limit.Counter, k, most, 60_000) }},
	{"buckets=60", func(k string, most int64) engine.Request {
		r := conformance.Request(limit.Counter, k, most, 60_000)
		r.Param = 60
		return r
	}},
	{"buckets=1000", func(k string, most int64) engine.Request {
		r := conformance.Request(limit.Counter, k, most, 60_000)
		r.Param = 1000
		return r
	}},
	{"fixed", func(k string, most int64) engine.Request { return conformance.Request(limit.Fixed, k, most, 60_000) }},
	{"windows=8", func(k string, most int64) engine.Request {
		r := conformance.Request(limit.Counter, k, most, 1000)
		r.N = 8
		for i := range r.N {
			r.Windows[i] = limit.Window{Limit: most, Length: int64(i+1) * 1000}
		}
		return r
	}},
}

func TestEmbeddedAllocations(t *testing.T) {
	for _, kind := range kinds {
		for _, tt := range []struct {
			what string
			most int64
			cost int64
		}{{"admitted", limit.MaxLimit, 1}, {"denied", 1, 1}, {"asked", 5, 0}} {
			t.Run(kind.name+"/"+tt.what, func(t *testing.T) {
				e, clock := setClock(t, Config{})
				var p engine.Pipeline
				for range 16 {
					r := kind.make("warm", tt.most)
					r.Cost = tt.cost
					*p.Add() = r
				}
				second := func() {
					*clock += 1000
					e.Do(&p)
				}
				for range 200 { // by then a log has the length that it keeps
					second()
				}
				require.Zero(t, testing.AllocsPerRun(1000, second))
			})
		}
	}
}

// A new key costs its name, its record and what its state keeps; the map and the
// heap grow now and then.
func TestEmbeddedAllocationsOfNewKeys(t *testing.T) {
	for _, kind := range kinds[:2] {
		t.Run(kind.name, func(t *testing.T) {
			e, _ := setClock(t, Config{})
			p := engine.Pipeline{Requests: make([]engine.Request, 64), Results: make([]engine.Result, 64)}
			next := int64(1e15)
			keys := make([]byte, 0, 64*16)
			allocs := testing.AllocsPerRun(200, func() {
				keys = keys[:0]
				for i := range p.Requests {
					keys = strconv.AppendInt(keys, next, 10)
					p.Requests[i] = kind.make("", 10)
					p.Requests[i].Key = keys[len(keys)-16:]
					next++
				}
				e.Do(&p)
			})
			require.LessOrEqual(t, allocs/64, 3.5)
		})
	}
}

// benchmark sends requests for n keys in turn, in pipelines of 16, a ms apart.
func benchmark(b *testing.B, n int, ask func(key string) engine.Request) {
	e, clock := setClock(b, Config{})
	const depth = 16
	pipelines := make([]engine.Pipeline, max(n/depth, 1))
	for i := range pipelines {
		for j := range depth {
			*pipelines[i].Add() = ask(fmt.Sprintf("key-%012d", (i*depth+j)%n))
		}
		e.Do(&pipelines[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range (b.N + depth - 1) / depth {
		*clock++
		e.Do(&pipelines[i%len(pipelines)])
	}
}

func BenchmarkEmbedded(b *testing.B) {
	for _, kind := range kinds {
		for _, n := range []int{1, 1000, 100_000} {
			if n > 1000 && kind.name == "buckets=1000" {
				continue // 0.8 GB
			}
			b.Run(fmt.Sprintf("%s/admitted/keys=%d", kind.name, n), func(b *testing.B) {
				benchmark(b, n, func(key string) engine.Request { return kind.make(key, limit.MaxLimit) })
			})
		}
		b.Run(kind.name+"/denied/keys=1", func(b *testing.B) {
			benchmark(b, 1, func(key string) engine.Request { return kind.make(key, 1) })
		})
	}
}
