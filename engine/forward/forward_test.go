package forward

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// corpus returns the commands of testdata/forward.txt.
func corpus(t testing.TB) (lines []string) {
	text, err := os.ReadFile("testdata/forward.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	require.Greater(t, len(lines), 250)
	return lines
}

// The commands are sent one at a time, and all in one pipeline.
func TestRepliesAreThoseOfTheNodeByteForByte(t *testing.T) {
	lines := corpus(t)
	for _, nodes := range []int{1, 3} {
		for _, proto := range []int{2, 3} {
			t.Run(fmt.Sprintf("%d nodes, RESP%d", nodes, proto), func(t *testing.T) {
				t.Parallel()
				straight := dialDirect(t, redistest.Start(t), proto)
				alone := open(t, nil, startServers(t, nodes)...)
				together := open(t, nil, startServers(t, nodes)...)
				piped := forwardAll(t, together, proto, lines...)
				for i, line := range lines {
					want := straight.ask(t, commandLine(t, line))
					require.Equal(t, want, forwardAll(t, alone, proto, line)[0], line)
					require.Equal(t, want, piped[i], "in a pipeline: %s", line)
				}
			})
		}
	}
}

func TestWarmPipelineAllocatesLessThanOncePerCommand(t *testing.T) {
	const commands = 64
	f := open(t, nil, redistest.Start(t))
	var p Pipeline
	args := commandLine(t, "GET nothing")
	run := func() {
		for range commands {
			p.Add(args, false)
		}
		f.Do(&p)
		p.Reset()
	}
	run()
	require.Equal(t, "$-1\r\n", forwardAll(t, f, 2, "GET nothing")[0])
	f.table.stale.Store(false) // or the forwarder may fetch the table again while this is measured
	perCommand := testing.AllocsPerRun(200, run) / commands
	t.Logf("%.2f allocations per command", perCommand)
	require.Less(t, perCommand, 1.0)
}

// BenchmarkForward measures GET from 50 connections with pipelines of 16 commands.
func BenchmarkForward(b *testing.B) {
	f := open(b, nil, redistest.Start(b))
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
				p.Add(args, false)
			}
			f.Do(&p)
			p.Reset()
		}
	})
}

func TestResultsNameTheCommandAsTheNodesDo(t *testing.T) {
	f := open(t, nil, startServers(t, 2)...)
	var p Pipeline
	lines := []string{
		"gEt a", "GET", "Object ENCODING a", "MGET a b c d", "BLPOP a 0", "CONFIG SET maxmemory 1", "SET rl:{a} 1", "RANDOMKEY", "made-up", "OBJECT made-up",
	}
	for _, line := range lines {
		p.Add(commandLine(t, line), false)
	}
	f.Do(&p)
	var names []string
	for i := range p.Results {
		names = append(names, p.Results[i].Name)
	}
	require.Equal(t, []string{"get", "get", "object|encoding", "mget", "blpop", "config|set", "set", "randomkey", "", ""}, names)
	p.Reset()
}
