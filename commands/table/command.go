// Package table describes commands, for COMMAND, COMMAND DOCS, HELP, ACL rules and
// docs/commands.md. Packages commands and ratelimit combine each description with the code
// that runs the command.
//
// Reading order: command.go (this file), categories.go, then info.go, docs.go and help.go, and
// commandcmd.go, which is the command COMMAND.
package table

import "slices"

// Command describes one command, or one subcommand of a command.
type Command struct {
	Name     string // in lower case; a subcommand is named as in client|setname
	Arity    int    // number of words, including the name; negative: the minimum
	Flags    []string
	ACL      []string // ACL categories in addition to those that follow from the flags
	Tips     []string // Redis's tips for cluster clients
	Keys     Keys
	Group    string
	Since    string // the version of Redis that introduced the command, or of rlproxy
	Cost     string // time complexity
	Summary  string
	Args     []Arg
	Replies  string     // the meaning of the reply, for the documentation
	Examples []Example  // for the documentation
	Subs     []*Command // subcommands
	Bare     bool       // the command may be sent without a subcommand
}

// Keys gives the positions of a command's keys. The zero value means that there are none.
type Keys struct {
	First int // index of the first key among the words
	Last  int // index of the last key; -1: the last word
	Step  int // distance between keys

	// Joined is set if a key is what the word before it, a colon and its word make together.
	Joined bool
}

// Arg is one argument, as in COMMAND DOCS.
type Arg struct {
	Name     string
	Type     string // key, string, integer, pattern, oneof, block, pure-token
	Token    string // the word before the value, or the word itself
	About    string // for the documentation
	Optional bool
	Multiple bool
	Args     []Arg // the arguments of a block, or the choices of a oneof
}

// Example is a command line and its reply, as redis-cli shows it.
type Example struct {
	Line, Reply string
}

// Fits reports whether the command may have n words.
func (c *Command) Fits(n int) bool {
	return n == c.Arity || c.Arity < 0 && n >= -c.Arity
}

// ArityError returns the error reply to a command with a wrong number of words.
func (c *Command) ArityError() string {
	return "ERR wrong number of arguments for '" + c.Name + "' command"
}

// Has reports whether the command has the flag.
func (c *Command) Has(flag string) bool {
	return slices.Contains(c.Flags, flag)
}

// Of returns the keys among the words of a command.
func (k Keys) Of(args [][]byte) [][]byte {
	if k.First == 0 {
		return nil
	}
	last := k.Last
	if last < 0 {
		last += len(args)
	}
	var found [][]byte
	for i := k.First; i <= last; i += k.Step {
		found = append(found, k.Key(nil, args, i))
	}
	return found
}

// Key returns the key at the word i. If it is made of several words, it is appended to buf.
func (k Keys) Key(buf []byte, args [][]byte, i int) []byte {
	if !k.Joined {
		return args[i]
	}
	return append(append(append(buf, args[i-1]...), ':'), args[i]...)
}
