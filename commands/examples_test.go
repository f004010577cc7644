package commands

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/slots"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/policy/store"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/stretchr/testify/require"
)

// exampleTime is when the examples of all decisions are asked: 1765 s after a full hour.
const exampleTime = 4102444800000 + 1_765_000

// before has what is typed before the examples of commands that need a state.
var before = map[string][]string{
	"rl.check":           {"RL.POLICY SET api SLIDE 100 60", "RL.POLICY OVERRIDE api scraper:* BLOCKED"},
	"rl.hold":            {"RL.POLICY SET tokens FIXED 1000 60"},
	"rl.inspect":         {"RL.SLIDE user:42 100 60"},
	"rl.policy|del":      {"RL.POLICY SET api SLIDE 100 60", "RL.POLICY OVERRIDE api tenant:42 1000 60"},
	"rl.policy|get":      {"RL.POLICY SET api SLIDE 100 60"},
	"rl.policy|list":     {"RL.POLICY SET api SLIDE 100 60"},
	"rl.policy|override": {"RL.POLICY SET api SLIDE 100 60"},
	"rl.release":         {"RL.ACQUIRE gpu 8 ID job-17", "RL.ACQUIRE gpu 8 ID job-18"},
	"rl.renew":           {"RL.ACQUIRE gpu 8 ID job-17"},
	"rl.resetmatch":      {"RL.SLIDE user:42 100 60"},
	"rl.scan":            {"RL.SLIDE user:42 100 60"},
	"rl.reset":           {"RL.SLIDE user:42 100 60"},
	"rl.settle":          {"RL.RESERVE tenant:7 100000 60 COST 4000 ID req-81 TTL 30"},
}

// The examples of commands about limits are what the embedded engine answers. Of one that ends with dots, the rest is not
// shown. Those of RL.HOTKEYS and RL.NODES are about other proxies and nodes.
func TestExamplesAreAnswers(t *testing.T) {
	rows := newRegistry(new(Config))
	for r := range all(rows) {
		if !r.Ours() || r.Name == "rl.hotkeys" || r.Name == "rl.nodes" {
			continue
		}
		for _, example := range r.Examples {
			s := newShell(t, "")
			for _, line := range before[r.Name] {
				require.NotContains(t, s.typeIn(t, line), "(error)", line)
				s.now = s.now.Add(time.Second)
			}
			reply, got := example.Reply, s.typeIn(t, example.Line)
			if shown, partly := strings.CutSuffix(reply, "..."); partly {
				reply, got = shown, got[:min(len(shown), len(got))]
			}
			require.Equal(t, reply, got, example.Line)
		}
	}
}

// shell is a session on an embedded engine, with a clock that the test sets, in which somebody types commands.
type shell struct {
	now     time.Time
	handler *Handler
	session *resp.Session
}

// newShell returns a shell at exampleTime, with the policies of a configuration.
func newShell(t *testing.T, policies string) *shell {
	s := &shell{now: time.UnixMilli(exampleTime)}
	now := func() time.Time { return s.now }
	catalog := policiesOf(policies)
	kept, err := store.Open(nil, "", catalog, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	e := memory.New(memory.Config{Now: now})
	keeper := slots.Open(slots.Config{Engine: e})
	t.Cleanup(keeper.Close)
	s.handler = New(Config{
		Engine: e, Keys: e, Observer: observe.New(observe.Config{Engine: e, Now: now}), Policies: catalog, ChangePolicies: kept.Change,
		Slots: keeper, Now: now,
	})
	s.session = open(s.handler, 1)
	return s
}

// typeIn returns the reply to a command as redis-cli shows it.
func (s *shell) typeIn(t *testing.T, line string) string {
	lines := strings.Split(strings.TrimSuffix(ask(s.handler, s.session, proxytest.Words(t, line)), "\r\n"), "\r\n")
	return shown(&lines, "")
}

// shown returns the first value of a reply, as redis-cli shows it behind an indent, and removes its lines from words.
func shown(words *[]string, indent string) string {
	kind, first := (*words)[0][0], (*words)[0][1:]
	*words = (*words)[1:]
	switch kind {
	case '-':
		return "(error) " + first
	case ':':
		return "(integer) " + first
	case '$':
		text := (*words)[0]
		*words = (*words)[1:]
		return strconv.Quote(text)
	case '+':
		return first
	}
	n, _ := strconv.Atoi(first)
	if n == 0 {
		return "(empty array)"
	}
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("%*d) %s", len(first), i+1, shown(words, indent+strings.Repeat(" ", len(first)+2))))
	}
	return strings.Join(lines, "\n"+indent)
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
				again := policyOf(append(of, ratelimit.OptionWords(parsed.Kind, parsed.Param, parsed.Manner, parsed.Limits())...))
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
