package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// A transcript is a text file in transcripts/, of one step a line:
//
//	@<ms> <command> -> <answer>             the clock is set, then the command sent
//	@<ms> <n> x <command> -> <m> admitted   the same n times in one pipeline
//	== <title>                              a new test, of fresh keys
//
// ms counts from Base. A line without a time keeps the clock. A decision's
// answer is its five integers; RL.RESET's is 1 or 0; RL.INSPECT's the states, each
// as command window-ms buckets used limit remaining, separated by commas, or none. An
// error's is its text. A last word SHADOW makes any command one about the key's shadow; the
// answer is as the engine decided, so that it begins with 0 for what would have been denied.

//go:embed transcripts/*.txt throttle.txt
var files embed.FS

func transcripts(t *testing.T, open Subject, pattern string) {
	names, err := fs.Glob(files, pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	for _, file := range names {
		text, err := files.ReadFile(file)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(path.Base(file), ".txt"), func(t *testing.T) {
			for i, test := range strings.Split("\n"+string(text), "\n== ")[1:] {
				title, steps, _ := strings.Cut(test, "\n")
				t.Run(title, func(t *testing.T) {
					prefix := fmt.Sprintf("%s-%d-", path.Base(file), i)
					for _, line := range strings.Split(steps, "\n") {
						play(t, e, &clock, prefix, line)
					}
				})
			}
		})
	}
}

// play runs one line.
func play(t *testing.T, e engine.Engine, clock *int64, prefix, line string) {
	t.Helper()
	step, want, found := strings.Cut(line, " -> ")
	if line == "" || line[0] == '#' {
		return
	}
	require.True(t, found, "no answer in %q", line)
	words := strings.Fields(step)
	if after, ok := strings.CutPrefix(words[0], "@"); ok {
		*clock = Base + number(t, after)
		words = words[1:]
	}
	times := 1
	many := len(words) > 1 && words[1] == "x"
	if many {
		times = int(number(t, words[0]))
		words = words[2:]
	}
	var p engine.Pipeline
	for range times {
		*p.Add() = parse(t, prefix, words)
	}
	e.Do(&p)
	got := spoken(t, &p.Requests[0], &p.Results[0])
	if many {
		admitted := 0
		for i := range p.Results {
			require.NoError(t, p.Results[i].Err)
			if p.Results[i].Allowed {
				admitted++
			}
		}
		got = fmt.Sprintf("%d admitted", admitted)
	}
	require.Equal(t, strings.Join(strings.Fields(want), " "), got, line)
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

// parse reads a command as a client writes it.
func parse(t *testing.T, prefix string, words []string) engine.Request {
	t.Helper()
	last := len(words) - 1
	shadow := words[last] == "SHADOW"
	if shadow {
		words = words[:last]
	}
	key, cost := string(shard.AppendName(nil, []byte(prefix+words[1]), shadow)), int64(1)
	switch words[0] {
	case "RL.RESET":
		return Reset(key)
	case "RL.INSPECT":
		return Inspect(key)
	case "CL.THROTTLE":
		if len(words) > 5 {
			cost = number(t, words[5])
		}
		return Throttle(key, number(t, words[2]), number(t, words[3]), number(t, words[4]), cost)
	}
	r := engine.Request{Key: []byte(key), Shadow: shadow, Spec: limit.Spec{Cost: cost, Buckets: 1}}
	for r.Kind = limit.Slide; r.Kind.String() != words[0]; r.Kind++ {
		require.True(t, r.Kind.Known(), words[0])
	}
	for words = words[2:]; len(words) > 0; {
		switch words[0] {
		case "STRICT":
			r.Strict = true
			words = words[1:]
			continue
		case "COST":
			r.Cost = number(t, words[1])
		case "BUCKETS":
			r.Buckets = number(t, words[1])
		default:
			r.Windows[r.N] = limit.Window{Limit: number(t, words[0]), Length: duration(t, words[1])}
			r.N++
		}
		words = words[2:]
	}
	return r
}

func duration(t *testing.T, s string) int64 {
	t.Helper()
	for _, unit := range []struct {
		name string
		ms   int64
	}{{"ms", 1}, {"s", 1000}, {"m", 60_000}, {"h", 3_600_000}, {"d", 86_400_000}} {
		if digits, ok := strings.CutSuffix(s, unit.name); ok {
			return number(t, digits) * unit.ms
		}
	}
	return number(t, s) * 1000
}

// spoken writes an answer as a transcript has it.
func spoken(t *testing.T, r *engine.Request, res *engine.Result) string {
	t.Helper()
	if res.Err != nil {
		return res.Err.Error()
	}
	switch r.Op {
	case engine.OpReset:
		if res.Reset {
			return "1"
		}
		return "0"
	case engine.OpInspect:
		if len(res.States) == 0 {
			return "none"
		}
		var out []string
		for _, s := range sorted(res.States) {
			out = append(out, fmt.Sprint(s.Kind, s.Window, s.Buckets, s.Used, s.Limit, s.Remaining))
		}
		return strings.Join(out, ", ")
	}
	allowed := 0
	if res.Allowed {
		allowed = 1
	}
	return fmt.Sprint(allowed, res.Limit, res.Remaining, res.RetryAfter, res.ResetAfter)
}
