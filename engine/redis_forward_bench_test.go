package engine

import (
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// BenchmarkForward measures GET by 50 connections that pipeline 16.
func BenchmarkForward(b *testing.B) {
	e := openForward(b, nil, redistest.Start(b))
	args := commandLine(b, "GET nothing")
	b.SetParallelism(25)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var p Pipeline
		for more := true; more; {
			for range 16 {
				if more = pb.Next(); !more {
					break
				}
				r := p.Add()
				r.Op, r.Args = OpForward, args
			}
			e.Do(&p)
			p.Reset()
		}
	})
}
