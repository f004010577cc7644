package decisionlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Each row is pipelines, the time before each of them, and the events of the lines that
// they give.
func TestWhatIsWorthALine(t *testing.T) {
	t.Parallel()
	many := func(a asked) asked { // the second window denies
		a.N, a.Windows[1] = 2, limit.Window{Limit: 5, Length: 60_000}
		a.Window = 1
		return a
	}
	reset := asked{Request: engine.Request{Op: engine.OpReset, Key: []byte("k")}}
	counter := slide("k")
	counter.Kind = limit.Counter
	remembered := slide("k")
	remembered.Remembered = true
	reserve := slide("k")
	reserve.Hold = &engine.Hold{}
	spared, full := slide("spared"), slide("full") // keys of one request
	spared.KeyNumber, spared.RetryAfter, full.KeyNumber = 1, 0, 2
	spent := slide("spared") // now it has no room
	spent.RetryAfter = 40
	type step struct {
		after time.Duration
		asked []asked
	}
	one := func(a ...asked) step { return step{0, a} }
	later := func(d time.Duration, a ...asked) step { return step{d, a} }
	for name, row := range map[string]struct {
		sample int
		steps  []step
		want   []string
	}{
		"admissions are not":                               {0, []step{one(slide("k").allowed(4), slide("k").allowed(0))}, nil},
		"other commands are not":                           {1, []step{one(reset)}, nil},
		"the first denial is":                              {0, []step{one(slide("k").allowed(0), slide("k"))}, []string{"denial k"}},
		"others in the window are not":                     {0, []step{one(slide("k"), slide("k")), later(999*time.Millisecond, slide("k"), remembered)}, []string{"denial k"}},
		"the first of the next is":                         {0, []step{one(slide("k"), slide("k")), later(time.Second, slide("k"), slide("k"))}, []string{"denial k", "denial k"}},
		"a remembered denial is":                           {0, []step{one(remembered)}, []string{"denial k"}},
		"each key's is":                                    {0, []step{one(slide("a"), slide("b"), slide("a"), slide("b"))}, []string{"denial a", "denial b"}},
		"each window's is":                                 {0, []step{one(slide("k"), many(slide("k")), slide("k"), many(slide("k")))}, []string{"denial k", "denial k"}},
		"each command's is":                                {0, []step{one(slide("k"), counter), one(slide("k"), counter)}, []string{"denial k", "denial k"}},
		"a reservation's is":                               {0, []step{one(slide("k"), reserve), one(slide("k"), reserve)}, []string{"denial k", "denial k"}},
		"of several keys, that of the one without room is": {0, []step{one(spared, full)}, []string{"denial full"}},
		"a key that had room is denied later":              {0, []step{one(full, spared, spent)}, []string{"denial full", "denial spared"}},
		"long windows have one line": {
			0, []step{one(slide("k").per(3_600_000)), later(59*time.Minute, slide("k").per(3_600_000)), later(time.Minute, slide("k").per(3_600_000))},
			[]string{"denial k", "denial k"},
		},
		"short windows have one a second": {
			0, []step{one(slide("k").per(1)), later(999*time.Millisecond, slide("k").per(1)), later(time.Millisecond, slide("k").per(1))},
			[]string{"denial k", "denial k"},
		},
		"every answer by FAIL policy is": {
			0, []step{one(slide("k").by(engine.FailOpen), slide("k").by(engine.FailClosed), slide("k").by(engine.FailClosed), slide("k").by(engine.FailLocal), slide("k").by(engine.FailError))},
			[]string{"fail k", "fail k", "fail k", "fail k", "fail k"},
		},
		"a FAIL policy's denial does not stand for the key's": {0, []step{one(slide("k").by(engine.FailClosed), slide("k"))}, []string{"fail k", "denial k"}},
		"errors are not": {0, []step{one(slide("k").failed())}, nil},
		"one of three others, in all pipelines": {
			3, []step{one(slide("a").allowed(4), slide("b"), slide("c").allowed(3)), one(slide("d").allowed(2), slide("e").by(engine.FailOpen), slide("f").failed(), slide("g").allowed(1), slide("h").allowed(0))},
			[]string{"denial b", "sample d", "fail e", "sample h"},
		},
		"all others": {1, []step{one(slide("a").allowed(0), slide("a"), slide("a"), slide("b").failed())}, []string{"sample a", "denial a", "sample a", "sample b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, Settings{Sample: row.sample})
			for _, s := range row.steps {
				b.wait(s.after)
				b.show(s.asked...)
			}
			var got []string
			for _, l := range b.lines(t) {
				got = append(got, fmt.Sprint(l["event"], " ", l["key"]))
				require.Equal(t, l["event"] == "sample", l["one_of"] != nil)
			}
			require.Equal(t, row.want, got)
		})
	}
}

// A shadow's denials have lines of their own, in addition to those of its key.
func TestAShadowIsAKeyOfItsOwn(t *testing.T) {
	b := start(t, Settings{})
	trial := slide("k\xffs")
	trial.Shadow = true
	b.show(trial, trial, slide("k"), trial, slide("k"))
	require.Equal(t, []Denial{{Shadow: true}, {}}, func() (shadows []Denial) {
		for _, d := range b.Newest()[0].Keys {
			require.Equal(t, "k", string(d.Key))
			shadows = append([]Denial{{Shadow: d.Shadow}}, shadows...)
		}
		return shadows
	}())
	require.Len(t, b.lines(t), 2)
}

// Lines above the rate are counted, so that the lines and the numbers of those left out add up
// to all events.
func TestLinesAboveTheRateAreCounted(t *testing.T) {
	t.Parallel()
	b := start(t, Settings{})
	const answers, keys = 1234, 2345
	for i := range max(answers, keys) {
		if i < answers {
			b.show(slide("k").by(engine.FailClosed))
		}
		if i < keys {
			b.show(slide(fmt.Sprint("key", i)))
		}
	}
	b.wait(time.Second)
	b.show(slide("k").by(engine.FailClosed), slide(fmt.Sprint("key", keys-1))) // a key that was left out has its turn now
	sums := map[string]int{}
	for _, l := range b.lines(t) {
		if l["event"] != "left_out" {
			sums[l["event"].(string)]++
		} else {
			sums["left out of "+l["of"].(string)] += int(l["count"].(float64))
			require.Equal(t, formatTime(began.Add(time.Second)), l["time"])
			require.Equal(t, map[string]string{"denial": "more than 1000 lines in a second", "fail": "more than 100 lines in a second"}[l["of"].(string)], l["why"])
		}
	}
	require.Equal(t, map[string]int{
		"fail": 101, "left out of fail": answers - 100,
		"denial": 1001, "left out of denial": keys - 1000,
	}, sums)
	require.EqualValues(t, answers-100+keys-1000, b.Stats()[1].Value)
}

// Without a file nothing is written or counted. The newest denials are kept.
func TestWithoutAFileOnlyTheNewestDenialsAreKept(t *testing.T) {
	t.Parallel()
	b := silent(t)
	for range 2000 {
		b.show(slide("k"), slide("p").by(engine.FailClosed))
	}
	require.Len(t, b.Newest()[0].Keys, 2)
	for _, s := range b.Stats() {
		require.Zero(t, s.Value, s.Name)
	}
	b.open(t, Settings{})
	b.show(slide("k"))
	require.Len(t, b.lines(t), 1, "what was denied without a file has no line yet")
}

// A decision that is admitted, and one more denial of a key, take no memory.
func TestAnUnremarkableDecisionDoesNotAllocate(t *testing.T) {
	b := start(t, Settings{})
	p := &engine.Pipeline{}
	for range 16 {
		p.Requests = append(p.Requests, slide("k").Request)
		p.Results = append(p.Results, slide("k").allowed(1).Result)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { b.Record(p, from) }))
	for i := range p.Results {
		p.Results[i] = slide("k").Result
	}
	b.Record(p, from)
	require.Zero(t, testing.AllocsPerRun(1000, func() { b.Record(p, from) }))
}

// BenchmarkRecord measures what the decision log adds to a pipeline of 16 decisions.
func BenchmarkRecord(b *testing.B) {
	allowed, denied, closed := slide("k").allowed(1), slide("k"), slide("k").by(engine.FailClosed)
	for name, kind := range map[string]asked{"allowed": allowed, "denied": denied, "fail": closed} {
		for file, open := range map[string]func(testing.TB) *bench{
			"file": func(t testing.TB) *bench { return start(t, Settings{}) }, "no file": silent,
		} {
			b.Run(name+"/"+file, func(b *testing.B) {
				r := open(b)
				p := &engine.Pipeline{}
				for range 16 {
					p.Requests = append(p.Requests, kind.Request)
					p.Results = append(p.Results, kind.Result)
				}
				b.ReportAllocs()
				for b.Loop() {
					r.Record(p, from)
				}
			})
		}
	}
}
