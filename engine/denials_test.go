package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// one asks an engine a single question.
func one(e Engine, r Request) Result {
	p := Pipeline{Requests: []Request{r}}
	e.Do(&p)
	return p.Results[0]
}

func slide(key string, limit, window, cost int64) Request {
	return Request{Op: OpSlide, Key: []byte(key), N: 1, Cost: cost, Buckets: 1, Windows: [MaxWindows]Window{{limit, window}}}
}

// scriptCalls is how many scripts a node has run by their hash.
func scriptCalls(t *testing.T, s *redistest.Server) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(s.Client.Info(context.Background(), "commandstats").Val())
	require.NotNil(t, m)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// A denial from memory is the one that the node would give at the same ms, whatever
// its clock says and wherever in its window it stands.
func TestRememberedDenialIsTheNodes(t *testing.T) {
	s := redistest.Start(t)
	const nodeAhead = 9_123_457 // ms
	now := time.Now().Add(200 * 24 * time.Hour)
	clock := func() int64 { return now.UnixMilli() + nodeAhead }
	truth := openTestRedis(t, clock, s)
	e := openTestRedis(t, clock, s)
	e.config.AskAlways = false
	e.now, e.opened = func() time.Time { return now }, now

	rng := rand.New(rand.NewPCG(3, 4)) // #nosec G404 -- a test's choices
	remembered := int64(0)
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		r := slide(op.String(), 20, 700, 1)
		r.Op = op
		if op == OpCounter {
			r.Buckets = 7
		}
		for range 4000 {
			asked := r
			asked.Cost = 0
			want := one(truth, asked)
			got := one(e, r)
			require.NoError(t, got.Err)
			require.Equal(t, want.Allowed, got.Allowed)
			require.Equal(t, want.RetryAfter, got.RetryAfter)
			if !got.Allowed {
				require.Equal(t, want.ResetAfter, got.ResetAfter)
			}
			now = now.Add(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		require.Greater(t, e.denied.answers.Load(), remembered+1000, "%s: few denials came from memory", op)
		remembered = e.denied.answers.Load()
	}
}

func TestDeniedTenantCostsItsNodeLittle(t *testing.T) {
	s := redistest.Start(t)
	e := openTestRedis(t, nil, s)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.True(t, one(e, slide("k", 1, 3_600_000, 1)).Allowed)
	before, began := scriptCalls(t, s), time.Now()
	for range 20_000 {
		require.False(t, one(e, slide("k", 1, 3_600_000, 1)).Allowed)
	}
	seconds := int(time.Since(began)/time.Second) + 1
	require.LessOrEqual(t, scriptCalls(t, s)-before, 2*seconds)
}

// What the next call says is what the node says, not what it said to another
// question or before a reset.
func TestDenialsAreForgotten(t *testing.T) {
	s := redistest.Start(t)
	here, there := openTestRedis(t, nil, s), openTestRedis(t, nil, s)
	for _, e := range []*Redis{here, there} {
		t.Cleanup(func() { require.NoError(t, e.Close()) })
	}
	require.Eventually(t, func() bool { // here and there listen
		return s.Client.PubSubNumSub(context.Background(), resetChannel).Val()[resetChannel] == 2
	}, 5*time.Second, time.Millisecond)
	// Messages of earlier resets may still be on their way: they, too, make it forget.
	deny := func() {
		t.Helper()
		one(here, Request{Op: OpReset, Key: []byte("k")})
		require.True(t, one(here, slide("k", 5, 3_600_000, 3)).Allowed)
		require.Eventually(t, func() bool {
			require.False(t, one(here, slide("k", 5, 3_600_000, 3)).Allowed)
			return here.denied.kept.Load() == 1
		}, 5*time.Second, time.Millisecond)
	}
	deny()
	require.True(t, one(here, slide("k", 5, 3_600_000, 1)).Allowed, "another cost")
	deny()
	require.True(t, one(here, slide("k", 6, 3_600_000, 3)).Allowed, "a raised limit")
	deny()
	require.True(t, one(here, Request{Op: OpReset, Key: []byte("k")}).Reset)
	require.True(t, one(here, slide("k", 5, 3_600_000, 3)).Allowed, "a reset here")

	deny()
	p := Pipeline{Requests: []Request{slide("k", 5, 3_600_000, 3), {Op: OpReset, Key: []byte("k")}, slide("k", 5, 3_600_000, 3)}}
	here.Do(&p)
	require.False(t, p.Results[0].Allowed)
	require.True(t, p.Results[1].Reset)
	require.True(t, p.Results[2].Allowed, "a reset before it in the pipeline")

	deny()
	require.True(t, one(there, Request{Op: OpReset, Key: []byte("k")}).Reset)
	require.Eventually(t, func() bool { return here.denied.kept.Load() == 0 },
		5*time.Second, time.Millisecond, "the message of a reset elsewhere: no look-up drops it")
	require.True(t, one(here, slide("k", 5, 3_600_000, 3)).Allowed)
}

// A denial from memory answers what follows it in its pipeline and asks the same, and
// nothing else.
func TestRememberedDenialAnswersEquals(t *testing.T) {
	s := redistest.Start(t)
	e := openTestRedis(t, nil, s)
	e.config.AskAlways = false
	full := slide("full", 2, 600_000, 1)
	require.True(t, one(e, slide("full", 2, 600_000, 2)).Allowed)
	require.False(t, one(e, full).Allowed) // and remembered
	before := scriptCalls(t, s)
	p := Pipeline{Requests: []Request{
		full, full, slide("free", 2, 600_000, 1), full, full, slide("full", 3, 600_000, 1), full, full,
		slide("full", 2, 600_000, 2), {Op: OpReset, Key: full.Key}, full, full, full,
	}}
	e.Do(&p)
	var allowed []bool
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err)
		allowed = append(allowed, p.Results[i].Allowed)
	}
	const no, yes = false, true
	require.Equal(t, []bool{no, no, yes, no, no, yes, no, no, no, no, yes, yes, no}, allowed)
	require.Equal(t, int64(6), e.denied.answers.Load(), "all equals before the reset, and none behind it")
	require.Equal(t, before+1, scriptCalls(t, s))
}

func TestRememberedDenialsAreBounded(t *testing.T) {
	var d denials
	for i := range 10 * maxDenials {
		r := slide(fmt.Sprint("key", i), 1, 1000, 1)
		d.remember(&r, Decision{Limit: 1, RetryAfter: 500}, 0, 0)
	}
	require.LessOrEqual(t, d.kept.Load(), int64(maxDenials))
	kept := 0
	for i := range d.stripes {
		kept += len(d.stripes[i].denied)
	}
	require.EqualValues(t, d.kept.Load(), kept)
	d.forgetAll()
	require.Zero(t, d.kept.Load())
}
