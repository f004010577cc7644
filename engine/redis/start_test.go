package redis

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// begun is a pipeline that was started.
type begun struct {
	engine.Pipeline
	answers atomic.Int64  // calls of done
	done    chan struct{} // gets a value at the first call of done
}

// begin starts requests as one pipeline.
func begin(e *Engine, requests ...engine.Request) *begun {
	b := &begun{done: make(chan struct{}, 1)}
	for _, r := range requests {
		*b.Add() = r
	}
	e.Start(&b.Pipeline, func() {
		if b.answers.Add(1) == 1 {
			b.done <- struct{}{}
		}
	})
	return b
}

// wait waits until the pipeline has its results.
func (b *begun) wait(t *testing.T) {
	t.Helper()
	select {
	case <-b.done:
	case <-time.After(10 * time.Second):
		require.Fail(t, "no answer to what was started")
	}
}

// guide returns a fake server that names the only master, as a sentinel and a node of a cluster do.
func guide(t *testing.T, master string) (g *fakeNode, name func(master string)) {
	t.Helper()
	g = startFake(t)
	name = func(master string) {
		host, port, err := net.SplitHostPort(master)
		require.NoError(t, err)
		g.set(func(args []string) reply {
			switch strings.ToLower(args[0]) {
			case "sentinel":
				return reply{text: "*2\r\n" + bulk(host) + bulk(port)}
			case "cluster":
				return reply{text: "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n" + bulk(host) + ":" + port + "\r\n" + bulk(strings.Repeat("a", 40))}
			}
			return g.well(args)
		})
	}
	name(master)
	return g, name
}

// The topology may change between Start and Flush. Requests that were started for a node that has left
// it are answered by that node, once, and do not wait until the node is closed.
func TestWhatIsStartedForANodeThatLeavesIsAnswered(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis+sentinel://%s/main", "redis+cluster://%s"} {
		name, _, _ := strings.Cut(kind, ":")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, next := redistest.Start(t), redistest.Start(t)
			g, names := guide(t, old.Addr)
			now := time.Now()
			nodes := backend.Config{
				Backends: []string{fmt.Sprintf(kind, g.addr)}, Timeout: 20 * time.Second,
				Now: func() time.Time { return now }, // no time passes after which the old node is closed
			}
			e := openOn(t, nodes, Config{AskAlways: true})
			ready(t, e, "k")

			const pipelines = 20
			var all []*begun
			for i := range pipelines {
				var requests []engine.Request
				for j := range 3 {
					requests = append(requests, charge(fmt.Sprintf("k%d:%d", i, j), 10))
				}
				all = append(all, begin(e, requests...))
			}
			left := e.queues.OpenAll().Queues[0]
			names(next.Addr)
			require.Eventually(t, func() bool {
				e.fleet.CheckTopology()
				return e.queues.OpenAll().Queues[0] != left
			}, 10*time.Second, time.Millisecond)
			after := begin(e, charge("new", 10))
			e.Flush()

			after.wait(t)
			require.NoError(t, after.Results[0].Err)
			for i, b := range all {
				b.wait(t)
				for j, res := range b.Results {
					require.NoError(t, res.Err)
					require.True(t, res.Allowed)
					require.EqualValues(t, 9, res.Remaining, "request %d of pipeline %d", j, i)
				}
			}
			require.EqualValues(t, 3*pipelines, old.Client.DBSize(t.Context()).Val(), "keys on the old node")
			require.EqualValues(t, 1, next.Client.DBSize(t.Context()).Val(), "keys on the new node")
			reader := openAlways(t, 20*time.Second, old.URL())
			for i, b := range all {
				for j := range b.Results {
					charged, held := used(t, reader, fmt.Sprintf("k%d:%d", i, j))
					require.EqualValues(t, 1, charged)
					require.Zero(t, held)
				}
				require.EqualValues(t, 1, b.answers.Load(), "calls of done")
			}
			require.EqualValues(t, 1, after.answers.Load())
		})
	}
}

// A panic after the first run of a started pipeline costs that pipeline its answers, and is logged with
// its stack. The next one works.
func TestPanicAfterTheFirstRunOfWhatWasStarted(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 2)
	var log proxytest.LockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := openOn(t, backend.Config{Backends: urls, Timeout: 20 * time.Second, Logger: logger}, Config{Logger: logger})
	keys := keysOn(e)
	request := and(charge(keys[0], 10), charge(keys[1], 10)) // of two nodes: it ends the first run
	broken := charge("broken", 10)
	broken.MoreKeys = 100 // more than there are
	b := begin(e, append(append([]engine.Request{charge("first", 10)}, request...), broken)...)
	e.Flush()
	b.wait(t)
	for i, res := range b.Results {
		require.Equal(t, &engine.Unavailable{Node: "rlproxy", Why: "internal error: see the log", MaybeApplied: true}, res.Err, "request %d", i)
		require.Zero(t, res.Decision)
	}
	require.Contains(t, log.String(), `msg="internal error" doing="answering what was started" panic="runtime error: slice bounds out of range`)
	require.Contains(t, log.String(), "routeMultiKey", "the stack")

	for range 3 { // plans are used again
		again := begin(e, append([]engine.Request{charge("second", 10)}, request...)...)
		e.Flush()
		again.wait(t)
		for i, res := range again.Results {
			require.NoError(t, res.Err, "request %d", i)
			require.True(t, res.Allowed)
		}
		require.EqualValues(t, 1, again.answers.Load())
	}
	require.True(t, conformance.Ask(e, charge("first", 10)).Allowed)
	require.EqualValues(t, 1, b.answers.Load(), "calls of done")
}
