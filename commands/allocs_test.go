package commands

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
)

// The most heap allocations per decision of a warm pipeline, from the request's bytes to the
// reply's, whatever the baseline says. A pipeline of one command pays for the whole round
// trip alone, so only the baseline applies to it.
const (
	mostEmbedded = 3.0
	mostRedis    = 6.0
)

// allocsFile is the baseline: the accepted allocations of each case. The flag -update
// rewrites it.
const allocsFile = "testdata/allocs.txt"

// allocsTolerance is by how much a case may exceed its baseline. One more allocation per
// decision exceeds it. Some more per pipeline do not, and under the race detector even more,
// since pools then drop their contents on purpose.
func allocsTolerance(depth int) float64 {
	perPipeline := 3.0
	if proxytest.Race {
		perPipeline = 7
	}
	if depth == 1 {
		return perPipeline
	}
	return 0.45 + perPipeline/float64(depth)
}

func TestAllocationsPerDecisionStayAtTheirBaseline(t *testing.T) {
	old := readAllocs(t)
	var found strings.Builder
	for _, e := range []struct {
		name string
		most float64
		open func(t *testing.T) engine.Engine
	}{
		{"embedded", mostEmbedded, func(*testing.T) engine.Engine { return memory.Open(memory.Config{}) }},
		{"redis", mostRedis, openRedis},
	} {
		addr := serveOn(t, e.open(t))
		for _, ask := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED", "RL.CHECK"} {
			for _, keys := range []string{"many", "one"} {
				for _, depth := range []int{1, 16, 64} {
					name := fmt.Sprintf("%s/%s/keys=%s/pipeline=%d", e.name, ask, keys, depth)
					t.Run(name, func(t *testing.T) {
						allocs := allocsPerDecision(t, addr, ask, keys == "many", depth)
						for try := 0; try < 3 && allocs > old[name]+allocsTolerance(depth); try++ { // what else runs may divide batches
							allocs = min(allocs, allocsPerDecision(t, addr, ask, keys == "many", depth))
						}
						fmt.Fprintf(&found, "%s %.2f\n", name, allocs)
						if depth > 1 {
							require.LessOrEqual(t, allocs, e.most)
						}
						// Beside other tests, batches may be slow, and then pipelines are asked in shorter runs, of which each has
						// allocations. make memory compares all with the baseline.
						divided := proxytest.Race && e.name == "redis"
						if !*update && !divided {
							require.Contains(t, old, name)
							require.LessOrEqual(t, allocs, old[name]+allocsTolerance(depth), "the baseline is in %s", allocsFile)
						}
					})
				}
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(allocsFile, []byte(found.String()), 0o600))
	}
}

// readAllocs returns the baseline.
func readAllocs(t *testing.T) map[string]float64 {
	text, err := os.ReadFile(allocsFile)
	require.NoError(t, err)
	old := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var allocs float64
		_, err := fmt.Sscanf(line, "%s %f", &name, &allocs)
		require.NoError(t, err, line)
		old[name] = allocs
	}
	return old
}

func openRedis(t *testing.T) engine.Engine {
	fleet, err := backend.Open(backend.Config{
		Backends: []string{redistest.Start(t).URL()},
		Timeout:  time.Minute, // so that policies do not answer on a slow machine
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return redis.Open(fleet, redis.Config{Settings: redis.Settings{Fail: engine.FailError}})
}

// serveOn starts a server with an engine, as rlproxy does, until the test ends.
func serveOn(t *testing.T, e engine.Engine) (addr string) {
	server := resp.NewServer(resp.Config{}, New(Config{Engine: e, Policies: policiesOf("policy k SLIDE 1000000 1m\npolicy-override k unknown BLOCKED")}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }() // ends at Shutdown
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown(context.Background()))
		require.NoError(t, <-served)
		require.NoError(t, e.Close())
	})
	return ln.Addr().String()
}

// allocsPerDecision sends pipelines until all memory is warm, then counts the allocations of
// the process. The client itself allocates nothing.
func allocsPerDecision(t *testing.T, addr, ask string, many bool, depth int) float64 {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	var pipeline []byte
	for i := range depth {
		key := fmt.Sprintf("k:%012d", i)
		if !many {
			key = "k:hot"
		}
		words := []string{"*4", ask, key, "1000000", "1m"}
		if ask == "RL.CHECK" {
			words = []string{"*3", ask, "k", key[2:]}
		}
		for _, word := range words {
			if word[0] != '*' {
				word = fmt.Sprintf("$%d\r\n%s", len(word), word)
			}
			pipeline = append(pipeline, word+"\r\n"...)
		}
	}
	replies, lines := make([]byte, 64<<10), 6*depth
	once := func() {
		if _, err := conn.Write(pipeline); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < lines; {
			n, err := conn.Read(replies)
			if err != nil {
				t.Fatal(err)
			}
			if replies[0] == '-' {
				t.Fatalf("not decisions: %q", replies[:n])
			}
			got += bytes.Count(replies[:n], []byte{'\n'})
		}
	}
	for range 50 {
		once()
	}
	return testing.AllocsPerRun(100, once) / float64(depth)
}
