package table

import (
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
)

// Help appends the reply to the HELP subcommand of a command.
func Help(w reply.Writer, c *Command) {
	lines := []string{strings.ToUpper(c.Name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	if c.Bare {
		lines = append(lines, "(no subcommand)", "    "+c.Summary+".")
	}
	for _, s := range c.Subs {
		_, sub, _ := strings.Cut(s.Name, "|")
		lines = append(lines, strings.TrimSpace(strings.ToUpper(sub)+" "+Usage(s.Args)), "    "+s.Summary+".")
	}
	writeLines(w, lines)
}

func writeLines(w reply.Writer, lines []string) {
	w.Array(len(lines))
	for _, l := range lines {
		w.Status(l)
	}
}

// HelpAll returns the command RL.HELP, which lists rlproxy's own commands of a table.
func HelpAll(of Table) Row {
	return Row{Command: Command{
		Name: "rl.help", Arity: 1, Flags: HelpFlags, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(N) with N the number of commands",
		Summary:    "Lists the commands of rlproxy, with their arguments",
		Replies:    "Array of lines: for each command its usage, and what it does.",
		Examples:   []Example{{Line: "RL.HELP", Reply: " 1) " + helpTitle + "\n 2) ..."}},
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			lines := []string{helpTitle}
			for _, c := range of.Commands() {
				if c.Ours() {
					lines = helpLines(lines, c)
				}
			}
			writeLines(w, lines)
			return ""
		},
	}
}

const helpTitle = "RL and CL commands. A window is in seconds, or has a unit: 500ms, 60, 1m, 24h. Commands are:"

// helpLines appends what RL.HELP says of a command, or of each subcommand of a container but HELP.
func helpLines(lines []string, c *Command) []string {
	for _, sub := range c.Subs {
		lines = helpLines(lines, sub)
	}
	if len(c.Subs) == 0 && !strings.HasSuffix(c.Name, "|help") {
		lines = append(lines, c.Usage(), "    "+c.Summary+".")
	}
	return lines
}

// Usage returns the syntax of the command. For a container it is the list of its subcommands.
func (c *Command) Usage() string {
	usage := strings.ToUpper(strings.ReplaceAll(c.Name, "|", " ")) + " "
	if len(c.Subs) == 0 || c.Bare {
		return strings.TrimSpace(usage + Usage(c.Args))
	}
	for i, sub := range c.Subs {
		if i > 0 {
			usage += "|"
		}
		_, name, _ := strings.Cut(sub.Name, "|")
		usage += strings.ToUpper(name)
	}
	return usage + " ..."
}

// Usage formats arguments as the documentation of Redis does: "[optional]", "a|b", "repeated [repeated ...]".
func Usage(args []Arg) string {
	words := make([]string, len(args))
	for i := range args {
		words[i] = args[i].Usage()
	}
	return strings.Join(words, " ")
}

// Usage formats an argument as the documentation of Redis does.
func (a *Arg) Usage() string {
	var s string
	switch a.Type {
	case "pure-token":
		s = a.Token
	case "block":
		s = Usage(a.Args)
	case "oneof":
		choices := make([]string, len(a.Args))
		for i := range a.Args {
			choices[i] = a.Args[i].Usage()
		}
		s = strings.Join(choices, "|")
	default:
		s = a.Name
	}
	if a.Token != "" && a.Type != "pure-token" {
		s = a.Token + " " + s
	}
	switch {
	case a.MultipleToken:
		s += " [" + a.Token + " ...]"
	case a.Multiple:
		s += " [" + s + " ...]"
	}
	if a.Optional {
		s = "[" + s + "]"
	}
	return s
}

// Flags that many commands have.
var (
	AdminFlags = []string{"admin", "noscript", "loading", "stale"}
	QuietFlags = []string{"noscript", "loading", "stale"}
	HelpFlags  = []string{"loading", "stale"}
)

// HelpCommand returns the subcommand HELP of a command.
func HelpCommand(of, since string) Command {
	return Command{
		Name: of + "|help", Arity: 2, Flags: HelpFlags, Since: since, Complexity: "O(1)",
		Summary: "Prints this help",
		Replies: "Array of lines.",
	}
}
