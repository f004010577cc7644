package engine

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each kind of decision, as the allocation bounds and the benchmarks ask for it.
var kinds = []struct {
	name string
	make func(key string, limit int64) Request
}{
	{"slide", func(k string, limit int64) Request { return request(OpSlide, k, limit, 60_000) }},
	{"counter", func(k string, limit int64) Request { return request(OpCounter, k, limit, 60_000) }},
	{"buckets=60", func(k string, limit int64) Request {
		r := request(OpCounter, k, limit, 60_000)
		r.Buckets = 60
		return r
	}},
	{"buckets=1000", func(k string, limit int64) Request {
		r := request(OpCounter, k, limit, 60_000)
		r.Buckets = 1000
		return r
	}},
	{"fixed", func(k string, limit int64) Request { return request(OpFixed, k, limit, 60_000) }},
	{"windows=8", func(k string, limit int64) Request {
		r := request(OpCounter, k, limit, 1000)
		r.N = 8
		for i := range r.N {
			r.Windows[i] = Window{limit, int64(i+1) * 1000}
		}
		return r
	}},
}

func TestEmbeddedAllocations(t *testing.T) {
	for _, kind := range kinds {
		for _, tt := range []struct {
			what  string
			limit int64
			cost  int64
		}{{"admitted", MaxLimit, 1}, {"denied", 1, 1}, {"asked", 5, 0}} {
			t.Run(kind.name+"/"+tt.what, func(t *testing.T) {
				e, clock := setClock(t, EmbeddedConfig{})
				var p Pipeline
				for range 16 {
					r := kind.make("warm", tt.limit)
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
			e, _ := setClock(t, EmbeddedConfig{})
			p := Pipeline{Requests: make([]Request, 64), Results: make([]Result, 64)}
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

// benchmark asks for n keys in turn, 16 a pipeline, a ms apart.
func benchmark(b *testing.B, n int, ask func(key string) Request) {
	e, clock := setClock(b, EmbeddedConfig{})
	const depth = 16
	pipelines := make([]Pipeline, max(n/depth, 1))
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
				benchmark(b, n, func(key string) Request { return kind.make(key, MaxLimit) })
			})
		}
		b.Run(kind.name+"/denied/keys=1", func(b *testing.B) {
			benchmark(b, 1, func(key string) Request { return kind.make(key, 1) })
		})
	}
}
