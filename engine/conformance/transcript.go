package conformance

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/table"
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
// window-ms parameter used limit remaining, separated by commas, or the word none. An error is
// its text. A last word SHADOW applies any command to the key's shadow; the answer is the
// engine's decision, so it begins with 0 if the request would have been denied.
//
// The policy of RL.HOLD is its words with commas between them. RL.HOLD, RL.RESERVE, RL.ACQUIRE and ONCE have the word
// again after their answer if the id was known. RL.SETTLE answers its three integers, RL.RELEASE of one id and RL.RENEW 1 or 0. A state with held units has their number and that of the holds after a
// plus sign, and then the number of holds that have lapsed, if there are any. A multi-key request, with AND, has an answer for each key, separated by commas.

//go:embed transcripts/*.txt holds/*.txt multikey/*.txt
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
		parse(t, &p, prefix, words)
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

// parse adds the requests of a command, which its own parser reads. Each test has keys of its own, with a prefix.
func parse(t *testing.T, p *engine.Pipeline, prefix string, words []string) {
	t.Helper()
	words = slices.Clone(words)
	for i, w := range words {
		if w == "RL.HOLD" {
			words[2] = prefix + words[2]
		} else if i == 0 || w == "AND" {
			words[i+1] = prefix + words[i+1]
		}
	}
	switch last := len(words) - 1; words[0] {
	case "RL.RESET", "RL.INSPECT": // of one state: the commands ask for that of the shadow, too
		r := p.Add()
		*r = Reset(string(shard.AppendName(nil, []byte(words[1]), words[last] == "SHADOW")))
		if words[0] == "RL.INSPECT" {
			r.Op = engine.OpInspect
		}
		return
	case "RL.SETTLE":
		if cost := number(t, words[3]); cost > limit.MaxLimit { // as only many overruns can
			*p.Add() = Settle(words[1], limit.Slide, words[2], cost)
			return
		}
	}
	Command(t, p, strings.Join(words, " "))
}

// commands has the rate limit commands by name. The policy of RL.HOLD is its text, with commas between the words.
var commands = func() map[string]ratelimit.Command {
	byName := map[string]ratelimit.Command{}
	for _, c := range append(ratelimit.Commands(), hold, ratelimit.Settle(func([]byte) bool { return false })) {
		byName[c.Name] = c
	}
	return byName
}()

var hold = ratelimit.HoldByPolicy(table.Command{
	Name: "rl.hold", Args: []table.Arg{{Name: "policy", Type: "string"}, {Name: "key", Type: "key"}},
}, func(r *engine.Request, _ *engine.Pipeline, text, key []byte) string {
	r.Key = key
	msg := ratelimit.ParsePolicy(r, bytes.Split(text, []byte(",")))
	r.Cost = 0
	return msg
})

// Command adds the requests of a command line.
func Command(t *testing.T, p *engine.Pipeline, line string) {
	t.Helper()
	require.Empty(t, parseLine(p, line), line)
}

// Parses adds the requests of a command line, and reports whether the command has no mistake.
func Parses(p *engine.Pipeline, line string) bool {
	n := len(p.Requests)
	if parseLine(p, line) != "" {
		p.Truncate(n)
		return false
	}
	return true
}

func parseLine(p *engine.Pipeline, line string) string {
	var args [][]byte
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	c, found := commands[strings.ToLower(string(args[0]))]
	if !found {
		return "no such command"
	}
	return c.Parse(args, p)
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
		engine.SortInspections(res.States)
		for _, s := range res.States {
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
