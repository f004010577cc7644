package local

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// charge returns a request of cost 1.
func charge(key string) engine.Request {
	r := engine.Request{Key: []byte(key), Spec: limit.Spec{Kind: limit.Fixed, N: 1, Cost: 1, Param: 1}}
	r.Windows[0] = limit.Window{Limit: 5, Length: 3_600_000}
	return r
}

func every(string) bool { return true }

// admit admits all requests.
func admit(p *engine.Pipeline) {
	p.Grow()
	for i := range p.Results {
		p.Results[i].Allowed = true
	}
}

// Stop does not wait until a node has taken everything that LOCAL counted. What was not written stays counted.
func TestTheEndStopsWritingBack(t *testing.T) {
	t.Parallel()
	l := Open(0, slog.New(slog.DiscardHandler))
	const keys = 20 * writeBatch
	for i := range keys {
		require.True(t, l.Decide([]engine.Request{charge(fmt.Sprint("key", i))}, false)[0].Allowed)
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	l.Start(func(ctx context.Context) bool {
		return l.WriteBack(ctx, every, func(p *engine.Pipeline) {
			close(asked)
			<-answer
			admit(p)
		})
	})
	l.Wake()
	<-asked
	l.stop()
	close(answer)
	l.Stop()
	require.EqualValues(t, writeBatch, l.written.Load(), "only the batch under way")
	require.EqualValues(t, keys-writeBatch, l.unwritten.Keys())
	require.Zero(t, l.lost.Load())
	require.NoError(t, l.Close())
}

// What a node may have charged is never written back, and what it certainly has not charged is written in another round.
func TestOnlyWhatWasNotChargedIsWrittenAgain(t *testing.T) {
	t.Parallel()
	l := Open(0, slog.New(slog.DiscardHandler))
	for _, key := range []string{"denied", "failed", "perhaps", "charged"} {
		require.True(t, l.Decide([]engine.Request{charge(key)}, false)[0].Allowed)
	}
	require.True(t, l.Decide([]engine.Request{charge("before")}, true)[0].Allowed, "a node may have charged it")
	require.True(t, l.WriteBack(t.Context(), every, func(p *engine.Pipeline) {
		require.Len(t, p.Requests, 4)
		admit(p)
		for i, r := range p.Requests {
			require.Equal(t, limit.Window{Limit: limit.MaxLimit, Length: 3_600_000}, r.Windows[0], "it was admitted")
			switch string(r.Key) {
			case "denied":
				p.Results[i].Allowed = false
			case "failed":
				p.Results[i].Err = &engine.Unavailable{}
			case "perhaps":
				p.Results[i].Err = &engine.Unavailable{MaybeApplied: true}
			}
		}
	}))
	require.EqualValues(t, 1, l.written.Load())
	require.EqualValues(t, 1, l.lost.Load())
	require.False(t, l.WriteBack(t.Context(), every, func(p *engine.Pipeline) {
		require.Len(t, p.Requests, 2)
		admit(p)
	}))
	require.EqualValues(t, 3, l.written.Load())
	require.Zero(t, l.unwritten.Keys())
	require.EqualValues(t, 5, l.counted.Keys(), "it counts here until it has left its window")
	require.NoError(t, l.Close())
}

// A key is denied by its limit, or because there is no memory to count it in, which is no decision about its limit.
func TestDenialsForLackOfMemoryAreNotByTheLimit(t *testing.T) {
	t.Parallel()
	l := Open(4<<10, slog.New(slog.DiscardHandler))
	denied := func(key string) engine.FailPolicy {
		r := charge(key)
		r.Windows[0].Limit = 1
		require.True(t, l.Decide([]engine.Request{r}, false)[0].Allowed)
		res := l.Decide([]engine.Request{r}, false)[0]
		require.False(t, res.Allowed)
		return res.Fail
	}
	require.Equal(t, engine.FailLocal, denied("first"))
	for i := range 1000 {
		if res := l.Decide([]engine.Request{charge(fmt.Sprint(i))}, false)[0]; !res.Allowed {
			require.Equal(t, engine.FailClosed, res.Fail)
			require.EqualValues(t, 1, l.counted.Refused())
			require.NoError(t, l.Close())
			return
		}
	}
	t.Fatal("memory has no end")
}

// Requests of every algorithm are decided as a node decides them, the keys of a multi-key request together. Where units add up, what
// was admitted of each state is written back.
func TestEveryAlgorithmIsDecidedAndWrittenBack(t *testing.T) {
	t.Parallel()
	seed := conformance.Seed()
	t.Logf("seed %d", seed)
	lines := conformance.Lines{
		Rand: rand.New(rand.NewPCG(seed, 3)), Keys: []string{"a", "b", "c", "d"}, Without: []string{"ONCE", "TZ"},
		From: map[string][]int64{ // so that nothing is forgotten while the test runs
			"window": {limit.MaxWindow}, "period": {limit.MaxWindow / 1000}, "count": {1, 2, 3}, "refill": {1, 2, 3},
		},
	}
	l := Open(0, slog.New(slog.DiscardHandler))
	keys, charged, seen := map[string]*model.Key{}, map[string]int64{}, map[string]int{}
	name := func(r *engine.Request, w limit.Window) string {
		return fmt.Sprintf("%s %v %d %d", r.Key, r.Kind, w.Length, r.Param)
	}
	for i := range 2000 {
		if i%20 == 0 {
			lines.Narrow()
		}
		var p engine.Pipeline
		line := lines.Add(&p, conformance.Decisions...)
		for len(p.Requests) > 0 {
			n := 1 + p.Requests[0].MoreKeys
			want := true
			for _, r := range p.Requests[:n] {
				if keys[string(r.Key)] == nil {
					keys[string(r.Key)] = model.New()
				}
				want = want && keys[string(r.Key)].Admits(conformance.Base*1000, &r.Spec, false)
			}
			for j, res := range l.Decide(slices.Clone(p.Requests[:n]), false) {
				r := &p.Requests[j]
				require.Equal(t, want, res.Allowed, line)
				require.EqualValues(t, -1, res.Remaining)
				seen[fmt.Sprint(r.Kind, want)]++
				if !want {
					continue
				}
				keys[string(r.Key)].Decide(conformance.Base*1000, &r.Spec, nil)
				for _, w := range r.Limits() {
					if r.Kind.Additive() && r.Cost > 0 {
						charged[name(r, w)] += r.Cost
					}
				}
			}
			p.Requests = p.Requests[n:]
		}
	}
	for _, command := range conformance.Decisions {
		require.Positive(t, seen[command+" true"], seen)
		require.Positive(t, seen[command+" false"], seen)
	}
	require.False(t, l.WriteBack(t.Context(), every, func(p *engine.Pipeline) {
		admit(p)
		for _, r := range p.Requests {
			require.Equal(t, charged[name(&r, r.Windows[0])], r.Cost)
			delete(charged, name(&r, r.Windows[0]))
		}
	}))
	require.Empty(t, charged)
	require.NoError(t, l.Close())
}
