package commands

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/stretchr/testify/require"
)

// exampleTime is when the examples of all decisions are asked: 1765 s after a full hour.
const exampleTime = 4102444800000 + 1_765_000

// The examples in the rows of all algorithms are what the embedded engine answers, each to a key without state.
func TestExamplesAreAnswers(t *testing.T) {
	for _, c := range ratelimit.Commands() {
		decides := false
		for k := range limit.Kind(limit.Kinds) {
			decides = decides || k != limit.Concurrency && strings.EqualFold(k.String(), c.Name)
		}
		if !decides {
			continue
		}
		require.NotEmpty(t, c.Examples, c.Name)
		for _, example := range c.Examples {
			e := memory.New(memory.Config{Now: func() time.Time { return time.UnixMilli(exampleTime) }})
			var args [][]byte
			for _, w := range strings.Fields(example.Line) {
				args = append(args, []byte(w))
			}
			var p engine.Pipeline
			require.Empty(t, c.Parse(args, &p), example.Line)
			e.Do(&p)
			words := strings.Split(strings.TrimSuffix(string(c.Reply(nil, 2, p.Requests, p.Results)), "\r\n"), "\r\n")
			require.Equal(t, example.Reply, shown(&words, ""), example.Line)
		}
	}
}

// shown returns the first value of a reply, as redis-cli shows it behind an indent, and removes its lines from words.
func shown(words *[]string, indent string) string {
	first := (*words)[0]
	*words = (*words)[1:]
	if first[0] != '*' {
		return "(integer) " + first[1:]
	}
	n, _ := strconv.Atoi(first[1:])
	var lines []string
	for i := range n {
		line := fmt.Sprintf("%d) %s", i+1, shown(words, indent+"   "))
		if i > 0 {
			line = indent + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// A policy with the words of an example is written as it is parsed.
func TestPoliciesAreWrittenAsTheyAreParsed(t *testing.T) {
	seen := 0
	for _, c := range ratelimit.Commands() {
		for _, example := range c.Examples {
			words := strings.Fields(example.Line)
			name, isAlgorithm := strings.CutPrefix(words[0], "RL.")
			if parsed := policyOf(append([]string{name}, words[2:]...)); isAlgorithm && parsed != nil {
				of := append([]string{name}, ratelimit.LimitWords(parsed.Kind, parsed.Param, parsed.Limits())...)
				again := policyOf(append(of, ratelimit.OptionWords(parsed.Kind, parsed.Param, parsed.Manner)...))
				require.NotNil(t, again, example.Line)
				require.Equal(t, parsed.Spec, again.Spec, example.Line)
				seen++
			}
		}
	}
	require.GreaterOrEqual(t, seen, 4)
}

// policyOf parses the words of a policy after its name. It returns nil if they are wrong.
func policyOf(words []string) *engine.Request {
	var args [][]byte
	for _, w := range words {
		args = append(args, []byte(w))
	}
	r := new(engine.Request)
	if ratelimit.ParsePolicy(r, args) != "" {
		return nil
	}
	return r
}
