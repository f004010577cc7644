package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// A transcript is a text file in transcripts/, holds/ or multikey/ with one step per line:
//
//	@<ms> <command> -> <answer>             the clock is set, then the command sent
//	@<ms> <n> x <command> -> <m> admitted   the same n times in one pipeline
//	== <title>                              begins a new test with fresh keys
//
// ms counts from Base. A line without a time keeps the clock. The answer of a decision is its
// five integers; that of RL.RESET is 1 or 0; that of RL.INSPECT the states, each as command
// window-ms buckets used limit remaining, separated by commas, or the word none. An error is
// its text. A last word SHADOW applies any command to the key's shadow; the answer is the
// engine's decision, so it begins with 0 if the request would have been denied.
//
// RL.RESERVE, RL.ACQUIRE and ONCE have the word again after their answer if the id was known. RL.SETTLE answers its three
// integers, RL.RELEASE of one id and RL.RENEW 1 or 0. A state with held units has their number and that of the holds after a
// plus sign, and then the number of holds that have lapsed, if there are any. A multi-key request, with AND, has an answer for each key, separated by commas.

//go:embed transcripts/*.txt holds/*.txt multikey/*.txt throttle.txt
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
		first := len(p.Requests)
		for {
			and := slices.Index(words, "AND")
			if and < 0 {
				break
			}
			*p.Add() = parse(t, prefix, words[:and])
			words = append([]string{words[0]}, words[and+1:]...)
		}
		*p.Add() = parse(t, prefix, words)
		p.Requests[first].MoreKeys = len(p.Requests) - first - 1
	}
	e.Do(&p)
	var answers []string
	for i := range 1 + p.Requests[0].MoreKeys {
		answers = append(answers, spoken(t, &p.Requests[i], &p.Results[i]))
	}
	got := strings.Join(answers, ", ")
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
	case "RL.SETTLE":
		return Settle(key, limit.Slide, words[2], number(t, words[3]))
	case "RL.RELEASE":
		return Settle(key, limit.Concurrency, words[2], 0)
	case "RL.RENEW":
		return Renew(key, words[2], duration(t, words[3]))
	}
	hold := &engine.Hold{TTL: 60_000}
	if words[0] == "RL.ACQUIRE" {
		words = append([]string{words[0], words[1], words[2], "0"}, words[3:]...) // a window without a length
	}
	if words[0] == "RL.RESERVE" {
		words = append([]string{"RL.SLIDE"}, words[1:]...)
	}
	named := Kinds(func(k limit.Kind) bool { return k.String() == words[0] })
	require.Len(t, named, 1, words[0])
	r := engine.Request{Key: []byte(key), Shadow: shadow, Spec: limit.Spec{Kind: named[0], Cost: cost, Param: 1}}
	for words = words[2:]; len(words) > 0; {
		switch words[0] {
		case "STRICT":
			r.Manner = limit.Strict
			words = words[1:]
			continue
		case "COST":
			r.Cost = number(t, words[1])
		case "BUCKETS":
			r.Param = number(t, words[1])
		case "ID", "ONCE":
			hold.ID, hold.Once = engine.DigestOf([]byte(words[1])), words[0] == "ONCE"
			r.Hold = hold
		case "TTL":
			hold.TTL = duration(t, words[1])
		case "LAPSE":
			hold.Release = words[1] == "RELEASE"
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
		return fmt.Sprint(digit(res.Reset))
	case engine.OpInspect:
		if len(res.States) == 0 {
			return "none"
		}
		var out []string
		for _, s := range sorted(res.States) {
			text := fmt.Sprint(s.Kind, s.Window, s.Param, s.Used, s.Limit, s.Remaining)
			if s.Holds > 0 {
				text += fmt.Sprint(" +", s.Held, " ", s.Holds)
				if s.Lapsed > 0 {
					text += fmt.Sprint(" lapsed ", s.Lapsed)
				}
			}
			out = append(out, text)
		}
		return strings.Join(out, ", ")
	case engine.OpSettle:
		if r.Kind == limit.Concurrency {
			return fmt.Sprint(digit(res.Settled.Settled))
		}
		return fmt.Sprint(digit(res.Settled.Settled), res.Settled.Charged, res.Settled.Returned)
	case engine.OpRenew:
		return fmt.Sprint(digit(res.Renewed))
	}
	text := fmt.Sprint(digit(res.Allowed), res.Limit, res.Remaining, res.RetryAfter, res.ResetAfter)
	if res.Again {
		text += " again"
	}
	return text
}

func digit(is bool) int {
	if is {
		return 1
	}
	return 0
}
