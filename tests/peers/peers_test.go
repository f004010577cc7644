package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }() // the system's own cleaning comes after us
	Binary = filepath.Join(folder, "rlproxy")
	if err := proxytest.BuildStatic(Binary, "../../cmd/rlproxy"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// These need nothing but what rlproxy's other tests need.
var ownPeers = []string{"rlproxy", "rlproxy embedded", "sorted-set script"}

func TestAPeerHoldsTheLimitThatARequestNames(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for _, name := range ownPeers {
		p, err := Start(t.Context(), name, redis.Addr)
		require.NoError(t, err)
		defer p.Stop()
		answers, err := p.Ask(Request{name, 3, time.Minute, 2}, Request{name, 3, time.Minute, 1}, Request{name, 3, time.Minute, 1})
		require.NoError(t, err)
		for i, want := range []bool{true, true, false} {
			require.NoError(t, answers[i].Err)
			require.Equal(t, want, answers[i].Allowed, "%s: request %d", name, i)
		}
		require.EqualValues(t, 3, Worst(answers[1:], 1, time.Minute)+2)
	}
}

func TestALoadCountsDecisionsAndCPU(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for _, name := range ownPeers {
		p, err := Start(t.Context(), name, redis.Addr)
		require.NoError(t, err)
		defer p.Stop()
		r, err := p.Load(t.Context(), Load{Connections: 5, Depth: 4, Keys: 100, Limit: 100, Window: time.Minute, For: time.Second / 10})
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Decisions, 5_000)
		require.Zero(t, r.Errors)
		require.Positive(t, r.Client)
		require.Equal(t, name != "sorted-set script", r.Server > 0, "%s", name)
		require.Equal(t, name != "rlproxy embedded", r.Store > 0, "%s", name)
		require.Positive(t, r.P50)
		require.GreaterOrEqual(t, r.P99, r.P50)
	}
}

func TestWorstCountsWhatSurelyLiesInOneWindow(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	at := func(sent, received int, allowed bool) Answer {
		ms := func(n int) time.Time { return zero.Add(time.Duration(n) * time.Millisecond) }
		return Answer{Allowed: allowed, Sent: ms(sent), Received: ms(received)}
	}
	answers := []Answer{at(0, 1, true), at(500, 501, false), at(998, 999, true), at(999, 1000, true), at(1000, 1900, true), at(1999, 2001, true)}
	require.EqualValues(t, 3, Worst(answers, 1, time.Second), "the last was received more than a window after 998 was sent")
	require.EqualValues(t, 8, Worst(answers, 2, 1010*time.Millisecond))
	require.EqualValues(t, 0, Worst(answers[1:2], 1, time.Second))
	require.EqualValues(t, 0, Worst([]Answer{at(0, 1000, true)}, 1, time.Second), "it may have been admitted at any moment of a window")
}
