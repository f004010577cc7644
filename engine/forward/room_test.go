package forward

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pipelineOf returns a pipeline of n GETs of each key in turn.
func pipelineOf(t testing.TB, n int, keys ...any) *Pipeline {
	p := new(Pipeline)
	for range n {
		for _, key := range keys {
			p.Add(commandLine(t, fmt.Sprint("GET ", key)), false)
		}
	}
	return p
}

// The replies to a pipeline may exceed ReplyLimit many times over, if the client reads those that
// are there. At no time does the pipeline hold more.
func TestThereIsRoomForRepliesOnceOthersAreRead(t *testing.T) {
	const limit, size = 1 << 20, 100_000
	f := open(t, func(c *Config) { c.ReplyLimit = limit }, startServers(t, 2)...)
	keys := keysOn(f)
	value := strings.Repeat("x", size)
	forwardAll(t, f, 2, fmt.Sprintf("SET %s %s", keys[0], value), fmt.Sprintf("SET %s %s", keys[1], value))
	for _, p := range []*Pipeline{pipelineOf(t, 300, keys[0]), pipelineOf(t, 4, keys...)} {
		f.Start(p)
		f.Wait(p)
		for i := range p.Results {
			r := f.Await(p, i)
			require.NoError(t, r.Err, i)
			require.Equal(t, value, string(r.Raw[len("$100000\r\n"):len(r.Raw)-2]), i)
			require.LessOrEqual(t, p.memory.reserved.Load(), int64(limit))
			p.Release(r)
		}
		require.Zero(t, p.memory.reserved.Load())
	}
}

// Clients that read nothing get errors for what has no room, and hold up neither each other's nor other
// clients' commands for longer than a worker waits.
func TestClientsThatDoNotReadDoNotHoldUpOthers(t *testing.T) {
	f := open(t, func(c *Config) { c.ReplyLimit = 1 << 20 }, startServers(t, 1)...)
	forwardAll(t, f, 2, "SET big "+strings.Repeat("x", 300_000), "SET small x")
	slow := make([]*Pipeline, 3*maxAside)
	for i := range slow {
		slow[i] = pipelineOf(t, 20, "big")
		f.Start(slow[i])
	}
	began := time.Now()
	require.Equal(t, "$1\r\nx\r\n", forwardAll(t, f, 2, "GET small")[0])
	require.Less(t, time.Since(began), 10*time.Second, "of 20")
	for _, p := range slow {
		f.Wait(p)
		refused := 0
		for i := range p.Results {
			if r := f.Await(p, i); r.Err != nil {
				require.ErrorIs(t, r.Err, errNoRoom)
				refused++
			}
		}
		require.Equal(t, 17, refused)
		p.Reset()
		require.Zero(t, p.memory.reserved.Load())
	}
	q := f.lanes().Queues[0][resp2]
	require.Eventually(t, func() bool { return q.waiting.Busy() == 0 }, 20*time.Second, time.Millisecond, "all are back")
}
