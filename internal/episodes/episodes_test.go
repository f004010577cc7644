package episodes

import (
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/stretchr/testify/require"
)

func because(why string) func() []any { return func() []any { return []any{"why", why} } }

var refuses = Trouble{Began: "refuses", Still: "still refuses", Ended: "works again", Calm: 10 * time.Second}

func TestEpisodeBeginsOnceLastsEndsAndBeginsAgain(t *testing.T) {
	w := logged.New()
	e := New(w.Logger(), w.Now, refuses, "node", "a")
	e.End()
	e.Tick()
	require.Empty(t, w.Said())
	require.False(t, e.Open.Load())
	e.Note("closed", 1, because("OOM"))
	require.True(t, e.Open.Load())
	require.Equal(t, "level=WARN msg=refuses node=a why=OOM closed=1\n", w.Said())
	w.Wait(Every - 1)
	e.Note("open", 2, because("OOM"))
	e.Tick("why", "OOM")
	require.Empty(t, w.Said())
	w.Wait(1)
	e.Note("closed", 1, because("NOPERM"))
	require.Equal(t, "level=WARN msg=\"still refuses\" node=a since=2026-11-25T02:00:00.000Z why=NOPERM closed=2 open=2\n", w.Said())
	w.Wait(Every)
	e.Tick("why", "OOM")
	require.Empty(t, w.Said(), "nothing has happened since the last line")
	e.Note("closed", 1, because("OOM"))
	require.Contains(t, w.Said(), "closed=3")
	w.Wait(9 * time.Second)
	e.End()
	require.Empty(t, w.Said(), "there was trouble a moment ago")
	w.Wait(time.Second)
	e.End()
	require.Equal(t, "level=INFO msg=\"works again\" node=a after=2m0s closed=3 open=2\n", w.Said(), "it took until the last trouble")
	e.End()
	w.Wait(time.Second)
	e.Note("open", 1, because("OOM"))
	require.Equal(t, "level=WARN msg=refuses node=a why=OOM open=1\n", w.Said(), "another episode")
}

// Trouble that comes long after a success is another episode, even if nobody has called End in between.
func TestLaterTroubleIsAnotherEpisode(t *testing.T) {
	w := logged.New()
	e := New(w.Logger(), w.Now, refuses)
	e.Note("times", 1, because("OOM"))
	w.Said()
	w.Wait(time.Second)
	e.End()
	w.Wait(time.Second)
	e.Note("times", 1, because("OOM"))
	require.Empty(t, w.Said(), "the success came in the middle of it")
	w.Wait(time.Second)
	e.End()
	w.Wait(time.Hour)
	e.Note("times", 1, because("slow"))
	require.Equal(t, "level=INFO msg=\"works again\" after=2s times=2\nlevel=WARN msg=refuses why=slow times=1\n", w.Said())
	w.Wait(time.Hour)
	e.Note("times", 1, because("slow"))
	require.Contains(t, w.Said(), `msg="still refuses" since=2026-11-25T03:00:03.000Z why=slow times=2`, "nothing has succeeded")
}

// The end of a state is what ends it.
func TestStateLastsUntilItEnds(t *testing.T) {
	w := logged.New()
	e := New(w.Logger(), w.Now, Trouble{Began: "down", Ended: "up"})
	e.Note("times", 1, because("x"))
	w.Wait(40 * time.Second)
	e.End()
	require.Contains(t, w.Said(), "level=INFO msg=up after=40s times=1\n")
}

func TestWhatIsLoggedElsewhereIsOnlyCounted(t *testing.T) {
	w := logged.New()
	e := New(w.Logger(), w.Now, refuses)
	e.Count("closed", 2)
	require.False(t, e.Open.Load())
	require.Equal(t, []any{"closed", int64(2)}, e.Counts())
	require.Equal(t, []any{"closed", int64(2)}, e.Take())
	require.Empty(t, e.Take())
	require.Empty(t, w.Said())
}

func TestNoLineNoAllocation(t *testing.T) {
	w := logged.New()
	e := New(w.Logger(), w.Now, refuses)
	why := strings.Repeat("x", 9)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e.Note("closed", 1, func() []any { return []any{"why", why} })
		e.Tick()
	}))
}

func TestSetHasAnEpisodeForEachThing(t *testing.T) {
	w := logged.New()
	s := NewEpisodes(w.Logger(), w.Now)
	kind := &Trouble{Began: "bad", Ended: "good"}
	note := func(node string) { s.Note(kind, []any{"node", node}, node, "why", "x") }
	note("a")
	note("b")
	note("a")
	require.Equal(t, "level=WARN msg=bad node=a why=x times=1\nlevel=WARN msg=bad node=b why=x times=1\n", w.Said())
	s.Round()
	note("a")
	s.Round()
	require.Equal(t, "level=INFO msg=good node=b after=0s times=1\n", w.Said(), "nothing was noted about b in this round")
	s.End(kind, "a")
	s.End(kind, "c")
	require.Equal(t, "level=INFO msg=good node=a after=0s times=3\n", w.Said())
	note("a")
	require.Contains(t, w.Said(), "times=1")
	for i := range 2 * maxSet {
		note(strings.Repeat("x", i))
	}
	require.Len(t, s.open, maxSet)
}
