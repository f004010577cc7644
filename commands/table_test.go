package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
)

const docsFile = "../docs/commands.md"

// Run with -update to rewrite the file.
func TestDocsAreGeneratedFromTheTable(t *testing.T) {
	want := document(newRegistry(new(Config)))
	if *update {
		require.NoError(t, os.WriteFile(docsFile, []byte(want), 0o600))
	}
	got, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/commands.md is stale: run go generate ./commands")
}

var groups = []struct{ name, title, text string }{
	{"ratelimit", "Rate limits", "Decisions use the clock of the key's node. Times are in milliseconds unless stated otherwise. A\n" +
		"denial is a reply, not an error, and charges nothing.\n" +
		"\n" +
		"A malformed command is an error, and charges nothing. The first wrong word determines it; if no word is wrong by itself,\n" +
		"windows of the same length are reported first, and a COST above a limit last. Clients may match on the\n" +
		"beginning of the text; the rest repeats the word, escaped and cut to 128 bytes, and may change:\n" +
		"\n" +
		refused("RL.SLIDE user:42 1e3 60") +
		refused("RL.SLIDE user:42 100 60 NX") +
		"\n" +
		"| an error begins with | when |\n|---|---|\n" +
		"| `" + reply.ErrLimit + "` | a limit is out of range, or the first one is not an integer |\n" +
		"| `" + reply.ErrWindow + "` | a word in the place of a window is not one |\n" +
		"| `" + reply.ErrDuplicate + "` | two windows are of the same length, such as 60 and 1m |\n" +
		"| `" + reply.ErrWindows + "` | there is a ninth pair |\n" +
		"| `" + reply.ErrCost + "`, `" + reply.ErrShards + "`, `" + reply.ErrBuckets + "` | the value of COST, SHARDS or BUCKETS is out of range |\n" +
		"| `" + reply.ErrTooCostly + "` | COST is above a limit |\n" +
		"| `" + reply.ErrFine + "` | BUCKETS is above the milliseconds of a window |\n" +
		"| `" + reply.ErrKey + "` | a key is empty or too long |\n" +
		"| `" + reply.ErrSameKey + "`, `" + reply.ErrKeys + "` | a request with AND names a key twice, or more than 8 keys |\n" +
		"| `" + reply.ErrHoldID + "` | the id of ONCE, of a reservation or of a lease is empty or too long |\n" +
		"| `" + reply.ErrTTL + "` | the TTL of a reservation is not a window, or longer than all of its windows |\n" +
		"| `" + reply.ErrSlotsTTL + "`, `" + reply.ErrConnTTL + "` | the TTL of a lease is not a window, or too short for CONN |\n" +
		"| `" + reply.ErrResetGlob + "` | RL.RESET found no state, and one of its keys has a `*` |\n" +
		"| `" + reply.ErrSlots + "` | the number of slots is out of range |\n" +
		"| `" + reply.ErrSyntax + "` | anything else: an unknown option, one given twice or without its value, a FAIL policy that does not exist, a further limit without its window |\n" +
		"| `" + engine.ErrStates.Error() + "` | the request would be the first about a window, and the key has 64 states that can still matter, each of one command, window and BUCKETS |\n" +
		"| `" + engine.ErrIDs.Error() + "` | the key has 65536 ids of ONCE that can still matter |\n" +
		"| `" + engine.ErrHolds.Error() + "` | 16384 reservations are out in one of the key's windows, or the key has 65536 that are out or were settled less than their TTL ago |\n" +
		"| `" + engine.ErrSlotHolds.Error() + "` | 65536 leases are out |\n" +
		"| `" + reply.ErrConnSlots + "` | the connection must release leases first |\n" +
		"| `" + engine.ErrOverrun.Error() + "` | RL.SETTLE would make a window count more than 2^45 units |\n" +
		"| `ERR the stored record of` | what is stored of the key is damaged, or of another version: the text names the stored key, and RL.RESET removes it |\n" +
		"| `UNAVAILABLE` | a node did not answer, or refused the call, and FAIL ERROR applies or the command has no FAIL policy, such as RL.RESET and RL.INSPECT |\n" +
		"\n" +
		"CL.THROTTLE has redis-cell's errors.\n"},
	{"policies", "Named policies", "RL.CHECK asks by a policy. Policies come from the configuration or from RL.POLICY, which cannot change those of the configuration.\n" +
		"What RL.POLICY sets is stored before it takes effect. With backends it is on a node, and all proxies of the same nodes have it within a second;\n" +
		"without them it is in `policy-file`. RL.POLICY is not in the category @ratelimit; RL.CHECK is.\n" +
		"\n" +
		"| an error begins with | when |\n|---|---|\n" +
		"| `ERR no such policy` | there is no policy of that name |\n" +
		"| `ERR policy name must be 1 to 64 letters, digits, _, . and -` | the name is too long, or has other characters |\n" +
		"| `ERR pattern must be a key, or a key prefix followed by *` | the pattern is empty, has a `*` before its end, a `?` or a `[`, or is a network such as `10.0.0.0/8` |\n" +
		"| `ERR too many policies: at most 4096`, `ERR too many overrides: at most 65536`, `ERR too many bytes of policies: at most 8388608` | there is no room for the change |\n" +
		"| `ERR policy 'api' is set in the configuration` | the policy cannot be changed by a command |\n" +
		"| `ERR the policies were changed concurrently` | another change came first, and this one has changed nothing |\n" +
		"| `ERR the stored policies cannot be used` | what is stored is damaged, or of a newer rlproxy; it is not overwritten |\n" +
		"| `ERR the policies cannot be stored` | the `policy-file` cannot be written |\n" +
		"| `UNAVAILABLE` | the node did not answer; the text ends with whether the change may have been stored |\n"},
	{"connection", "Connection", "As in Redis " + RedisVersion[:3] + ", unless stated otherwise.\n"},
	{"transactions", "Transactions", "Commands between MULTI and EXEC run in order, as one pipeline. They are not atomic: other clients'\n" +
		"commands may run in between. Rate limits may be on different nodes; the keys of forwarded commands must be on\n" +
		"one, else the error CROSSSLOT discards the transaction. The queue of a connection is bounded.\n"},
	{"pubsub", "Subscriptions", "Where no commands are forwarded, subscriptions are acknowledged for clients that need them to start. Nothing is\n" +
		"ever published.\n"},
	{"server", "Server", ""},
	{"cluster", "Cluster", ""},
}

// refused returns a malformed command and its error, as redis-cli shows them.
func refused(line string) string {
	words := strings.Fields(line)
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	msg := newRegistry(new(Config)).get(args[0]).parse(args, new(engine.Pipeline))
	return "    > " + line + "\n    (error) " + msg + "\n"
}

// document returns the text of docs/commands.md. Commands that have examples get a section each, the
// others a row in the table of their group.
func document(t *registry) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"This file is generated from the command table by `go generate ./commands`; a test fails if it is stale.\n\n" +
		"Names and options may be in any case; units of windows are in lower case. Examples show the output of\n" +
		"redis-cli.\n\n" +
		"With backends, all other commands are forwarded to the node of their keys, and its reply is returned\n" +
		"unchanged. See the directive `passthrough` in rlproxy.conf for the exceptions. COMMAND and its subcommands\n" +
		"also know those that are forwarded, COMMAND DOCS only the commands on this page.\n\n" +
		"| command | what it does |\n|---|---|\n")
	for _, g := range groups {
		for r := range t.documented(g.name) {
			if len(r.Examples) > 0 {
				fmt.Fprintf(&b, "| [%s](#%s) | %s. |\n", r.title(), r.anchor(), cell(r.Summary))
			}
		}
	}
	b.WriteString("\nThe other commands of Redis that rlproxy answers itself are under [Connection](#connection), [Transactions](#transactions),\n" +
		"[Subscriptions](#subscriptions), [Server](#server) and [Cluster](#cluster).\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n", g.title)
		if g.text != "" {
			b.WriteString("\n" + g.text)
		}
		heading := "\n| command | what it does | reply |\n|---|---|---|\n"
		for r := range t.documented(g.name) {
			if len(r.Examples) == 0 {
				b.WriteString(heading + r.tableRow())
				heading = ""
			}
		}
		for r := range t.documented(g.name) {
			if len(r.Examples) > 0 {
				r.document(&b)
			}
		}
	}
	return b.String()
}

// documented yields the commands and subcommands of a group that can be sent, and not the containers of
// subcommands.
func (t *registry) documented(group string) func(func(*row) bool) {
	return func(yield func(*row) bool) {
		for r := range all(t) {
			if r.Group == group && !r.container() && !yield(r) {
				return
			}
		}
	}
}

// container reports whether the command only has subcommands.
func (r *row) container() bool { return len(r.subs) > 0 && r.run == nil }

func (r *row) title() string { return strings.ToUpper(strings.ReplaceAll(r.Name, "|", " ")) }

// anchor returns the anchor that GitHub gives to the heading of a command.
func (r *row) anchor() string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(r.title()), ".", ""), " ", "-")
}

// cell returns a text as it is written in a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// tableRow returns the row of a command in the table of its group.
func (r *row) tableRow() string {
	does := strings.Join(append([]string{r.Summary + "."}, describe(r.Args)...), " ")
	return fmt.Sprintf("| `%s` | %s | %s |\n", cell(r.Usage()), cell(does), cell(r.Replies))
}

// document writes the section of a command.
func (r *row) document(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n    %s\n\n%s.\n", r.title(), r.Usage(), r.Summary)
	for i, about := range describe(r.Args) {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("- " + about + "\n")
	}
	fmt.Fprintf(b, "\nReply: %s\n\n", r.Replies)
	if strings.Contains(r.Replies, "\n- ") {
		b.WriteString("For example:\n\n") // a list would take what is indented below it for a paragraph of its own
	}
	for i, e := range r.Examples {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString("    > " + e.Line + "\n")
		for line := range strings.SplitSeq(e.Reply, "\n") {
			b.WriteString("    " + line + "\n")
		}
	}
	if r.Ours() { // Redis's own documentation has the others
		fmt.Fprintf(b, "\nSince %s. Time: %s.\n", r.Since, strings.TrimSuffix(r.Complexity, "."))
	}
}

// Where another document shows the syntax of a command, it has all of its options.
func TestSyntaxInDocumentsHasEveryOption(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	rows, syntax := newRegistry(new(Config)), regexp.MustCompile(`(?m)^    (RL\.[A-Z]+)(?: ([A-Z]+))? .*\[.*$`)
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, line := range syntax.FindAllStringSubmatch(string(text), -1) {
			r := rows.get([]byte(line[1]))
			require.NotNil(t, r, line[0])
			if len(r.subs) > 0 {
				r = rows.sub(r, []byte(line[2]))
				require.NotNil(t, r, line[0])
			}
			for _, a := range r.Args {
				if a.Optional && a.Token != "" {
					require.Contains(t, line[0], "["+a.Token, file)
				}
			}
		}
	}
}

// describe returns a sentence about each of the arguments that have a description.
func describe(args []table.Arg) (about []string) {
	for i := range args {
		a := &args[i]
		if a.About != "" {
			name := a.Name
			if a.Token != "" {
				name = (&table.Arg{Name: a.Name, Type: a.Type, Token: a.Token, Args: a.Args}).Usage()
			}
			about = append(about, fmt.Sprintf("`%s`: %s.", name, a.About))
		}
		about = append(about, describe(a.Args)...)
	}
	return about
}

// COMMAND, HELP and the documentation need every field.
func TestRowsAreComplete(t *testing.T) {
	known := []string{"key", "string", "integer", "pattern", "oneof", "block", "pure-token"}
	var groupNames []string
	for _, g := range groups {
		groupNames = append(groupNames, g.name)
	}
	rows := newRegistry(new(Config))
	require.Len(t, rows.byName, len(slices.Collect(all(rows))), "a name is used twice")
	for r := range all(rows) {
		require.Regexp(t, `^[a-z.]+(\|[a-z-]+)?$`, r.Name)
		require.LessOrEqual(t, len(r.Name), 32, "longer names are not found")
		require.NotZero(t, r.Arity, r.Name)
		require.Contains(t, groupNames, r.Group, r.Name)
		require.Regexp(t, `^\d+\.\d+\.\d+$`, r.Since, r.Name)
		require.NotEmpty(t, r.Complexity, r.Name)
		require.NotEmpty(t, r.Summary, r.Name)
		require.False(t, strings.HasSuffix(r.Summary, "."), "%s: HELP and the documentation add the period", r.Name)
		require.Equal(t, r.container(), r.Replies == "", r.Name)
		require.NotRegexp(t, `<\w`, r.Summary+r.Replies, "%s: a page would take it for HTML", r.Name)
		require.True(t, len(r.Examples) > 0 || !r.Ours() || r.container() || strings.HasSuffix(r.Name, "|help"), r.Name)
		for _, e := range r.Examples {
			require.NotEmpty(t, e.Reply, r.Name)
			args := proxytest.Words(t, e.Line)
			require.True(t, r.Fits(len(args)), "%s: an example has the wrong arity", r.Name)
		}
		require.True(t, r.Fits(minWords(r)), "%s: the arguments do not match the arity", r.Name)
		if r.Arity > 0 {
			require.False(t, regexp.MustCompile(`\[`).MatchString(table.Usage(r.Args)), "%s: optional arguments need a variable arity", r.Name)
		}
		if len(r.subs) == 0 {
			require.NotEmpty(t, r.Flags, r.Name)
			require.True(t, (r.parse != nil) != (r.run != nil), "%s: a row has either parse or run", r.Name)
			require.Equal(t, r.parse != nil, r.reply != nil, r.Name)
		}
		require.False(t, r.barrier && r.run == nil, r.Name)
		require.Equal(t, r.run != nil && len(r.subs) > 0, r.Bare, r.Name)
		require.Equal(t, r.Has("no_auth"), r.early, r.Name)
		if r.Keys.First > 0 {
			require.NotZero(t, r.Keys.Step, r.Name)
			require.True(t, slices.ContainsFunc(r.Args, hasKey), "%s: none of the arguments is a key", r.Name)
		}
		checkArgs(t, r.Name, r.Args, known)
	}
}

// all yields commands and subcommands.
func all(t *registry) func(func(*row) bool) {
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

// hasKey reports whether an argument is a key, or a block with a key.
func hasKey(a table.Arg) bool { return a.Type == "key" || slices.ContainsFunc(a.Args, hasKey) }

func checkArgs(t *testing.T, name string, args []table.Arg, known []string) {
	for _, a := range args {
		require.NotEmpty(t, a.Name, name)
		require.Contains(t, known, a.Type, name)
		require.Equal(t, a.Type == "oneof" || a.Type == "block", len(a.Args) > 0, "%s %s", name, a.Name)
		if a.Type == "pure-token" {
			require.NotEmpty(t, a.Token, "%s %s", name, a.Name)
		}
		checkArgs(t, name, a.Args, known)
	}
}

// minWords returns the number of words of the shortest form of a command.
func minWords(r *row) int {
	n := 1 + strings.Count(r.Name, "|") + minArgs(r.Args)
	if r.container() {
		n++ // the subcommand
	}
	return n
}

func minArgs(args []table.Arg) int {
	n := 0
	for _, a := range args {
		if a.Optional {
			continue
		}
		if a.Token != "" && a.Type != "pure-token" {
			n++
		}
		switch a.Type {
		case "block":
			n += minArgs(a.Args)
		case "oneof":
			shortest := minArgs(a.Args[:1])
			for i := range a.Args {
				shortest = min(shortest, minArgs(a.Args[i:i+1]))
			}
			n += shortest
		default:
			n++
		}
	}
	return n
}
