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
	w.Array(len(lines))
	for _, l := range lines {
		w.Status(l)
	}
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
