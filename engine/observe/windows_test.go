package observe

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

func TestShortestWindowIsRememberedForMinutes(t *testing.T) {
	now := time.Now()
	o := New(Config{Now: func() time.Time { return now }})
	longest := time.Duration(limit.MaxWindow) * time.Millisecond
	ask := func(kind limit.Kind, windows ...int64) {
		r := engine.Request{Spec: limit.Spec{Kind: kind, N: len(windows)}}
		for i, w := range windows {
			r.Windows[i] = limit.Window{Limit: 5, Length: w}
		}
		o.Observe(&engine.Pipeline{Requests: []engine.Request{r}, Results: make([]engine.Result, 1)}, now, 0, Sender{})
	}
	require.Equal(t, longest, o.ShortestWindow())
	ask(limit.Concurrency, 0)
	require.Equal(t, longest, o.ShortestWindow(), "slots have no window")
	ask(limit.Slide, 60_000, 1000)
	ask(limit.Slide, 5000)
	require.Equal(t, time.Second, o.ShortestWindow())
	now = now.Add(windowsFor)
	require.Equal(t, time.Second, o.ShortestWindow())
	ask(limit.Slide, 5000)
	now = now.Add(windowsFor)
	require.Equal(t, 5*time.Second, o.ShortestWindow(), "the shorter one was not asked for again")
}
