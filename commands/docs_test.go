package commands

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const docsFile = "../docs/commands.md"

// Run with -update to rewrite the file.
func TestDocsAreThoseOfTheTable(t *testing.T) {
	want := document(newTable())
	if *update {
		require.NoError(t, os.WriteFile(docsFile, []byte(want), 0o600))
	}
	got, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/commands.md is stale: go generate ./commands")
}

var groups = []struct{ name, title, text string }{
	{"ratelimit", "Rate limits", "Decisions are made by the clock of the node that owns the key. Times are in milliseconds unless\n" +
		"a line says otherwise. A denial is an answer, not an error, and charges nothing.\n"},
	{"connection", "Connection", "As in Redis " + RedisVersion[:3] + ", but for what a line says.\n"},
	{"transactions", "Transactions", "Commands between MULTI and EXEC are run in order, as one pipeline. They are not atomic: keys may\n" +
		"live on different nodes, and other clients' commands may come between. The queue of a connection is\n" +
		"bounded.\n"},
	{"pubsub", "Subscriptions", "Subscriptions are acknowledged so that clients start; nothing is ever published.\n"},
	{"server", "Server", ""},
	{"cluster", "Cluster", ""},
}

// document writes docs/commands.md.
func document(t *table) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"Generated from the command table by `go generate ./commands`; a test fails when it is stale.\n\n" +
		"Names and options may be written in any case, units of windows in lower case only. Examples show what\n" +
		"redis-cli prints.\n\n" +
		"With backends, all other commands go to the node that their keys lie on, and its reply comes back as it was\n" +
		"sent; see the directive `passthrough` in rlproxy.conf for what is not passed on. There is no WATCH for them:\n" +
		"MULTI keeps commands in order and together, and nothing more.\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n", g.title)
		if g.text != "" {
			b.WriteString("\n" + g.text)
		}
		for _, r := range t.rows {
			if r.group != g.name {
				continue
			}
			if len(r.subs) == 0 || r.run != nil {
				r.document(&b)
			}
			for i := range r.subs {
				r.subs[i].document(&b)
			}
		}
	}
	return b.String()
}

func (r *row) document(b *strings.Builder) {
	name := strings.ToUpper(strings.ReplaceAll(r.name, "|", " "))
	fmt.Fprintf(b, "\n### %s\n\n    %s\n\n%s.\n", name, strings.TrimSpace(name+" "+usage(r.args)), strings.TrimSuffix(r.summary, "."))
	var about strings.Builder
	describe(&about, r.args)
	if about.Len() > 0 {
		b.WriteString("\n" + about.String())
	}
	fmt.Fprintf(b, "\nReply: %s\n\n", r.replies)
	for i, e := range r.example {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString("    > " + e.line + "\n")
		for line := range strings.SplitSeq(e.reply, "\n") {
			b.WriteString("    " + line + "\n")
		}
	}
	fmt.Fprintf(b, "\nSince %s. Time: %s.\n", r.since, strings.TrimSuffix(r.cost, "."))
}

// describe lists the arguments that have something said about them.
func describe(b *strings.Builder, args []arg) {
	for i := range args {
		a := &args[i]
		if a.about != "" {
			name := a.name
			if a.token != "" {
				name = strings.TrimSuffix(strings.TrimPrefix((&arg{name: a.name, typ: a.typ, token: a.token, args: a.args}).usage(), "["), "]")
			}
			fmt.Fprintf(b, "- `%s`: %s.\n", name, a.about)
		}
		describe(b, a.args)
	}
}

// Every row has every part, so that COMMAND, HELP and the documentation lack none.
func TestRowsAreWhole(t *testing.T) {
	known := []string{"key", "string", "integer", "pattern", "oneof", "block", "pure-token"}
	var groupNames []string
	for _, g := range groups {
		groupNames = append(groupNames, g.name)
	}
	rows := newTable()
	require.Len(t, rows.byName, len(slices.Collect(all(rows))), "a name is used twice")
	for r := range all(rows) {
		require.Regexp(t, `^[a-z.]+(\|[a-z-]+)?$`, r.name)
		require.LessOrEqual(t, len(r.name), 32, "longer names are not found")
		require.NotZero(t, r.arity, r.name)
		require.Contains(t, groupNames, r.group, r.name)
		require.Regexp(t, `^\d+\.\d+\.\d+$`, r.since, r.name)
		for _, text := range []string{r.cost, r.summary, r.replies, r.wrong} {
			require.NotEmpty(t, text, r.name)
		}
		require.NotEmpty(t, r.example, r.name)
		for _, e := range r.example {
			require.NotEmpty(t, e.reply, r.name)
			args := split(t, e.line)
			require.True(t, r.fits(len(args)), "%s: an example of the wrong arity", r.name)
		}
		require.True(t, r.fits(minWords(r)), "%s: the arguments do not suit the arity", r.name)
		if r.arity > 0 {
			require.False(t, regexp.MustCompile(`\[`).MatchString(usage(r.args)), "%s: optional arguments, fixed arity", r.name)
		}
		if len(r.subs) == 0 {
			require.NotEmpty(t, r.flags, r.name)
			require.True(t, (r.parse != nil) != (r.run != nil), "%s: for the engine, or run here", r.name)
			require.Equal(t, r.parse != nil, r.reply != nil, r.name)
		}
		require.False(t, r.barrier && r.run == nil, r.name)
		require.Equal(t, r.has("no_auth"), r.early, r.name)
		if r.keys.first > 0 {
			require.NotZero(t, r.keys.step, r.name)
			require.NotEqual(t, -1, slices.IndexFunc(r.args, func(a arg) bool { return a.typ == "key" }), r.name)
		}
		checkArgs(t, r.name, r.args, known)
	}
}

// all yields commands and subcommands.
func all(t *table) func(func(*row) bool) {
	return func(yield func(*row) bool) {
		for _, r := range t.rows {
			if !yield(r) {
				return
			}
			for i := range r.subs {
				if !yield(&r.subs[i]) {
					return
				}
			}
		}
	}
}

func checkArgs(t *testing.T, name string, args []arg, known []string) {
	for _, a := range args {
		require.NotEmpty(t, a.name, name)
		require.Contains(t, known, a.typ, name)
		require.Equal(t, a.typ == "oneof" || a.typ == "block", len(a.args) > 0, "%s %s", name, a.name)
		if a.typ == "pure-token" {
			require.NotEmpty(t, a.token, "%s %s", name, a.name)
		}
		checkArgs(t, name, a.args, known)
	}
}

// minWords is how many words the shortest form of a command has.
func minWords(r *row) int {
	n := 1 + strings.Count(r.name, "|") + minArgs(r.args)
	if len(r.subs) > 0 && r.run == nil {
		n++ // the subcommand
	}
	return n
}

func minArgs(args []arg) int {
	n := 0
	for _, a := range args {
		if a.optional {
			continue
		}
		if a.token != "" && a.typ != "pure-token" {
			n++
		}
		switch a.typ {
		case "block":
			n += minArgs(a.args)
		case "oneof":
			shortest := minArgs(a.args[:1])
			for i := range a.args {
				shortest = min(shortest, minArgs(a.args[i:i+1]))
			}
			n += shortest
		default:
			n++
		}
	}
	return n
}
