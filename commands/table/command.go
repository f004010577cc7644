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

	// Next returns the index of the key after the one at an index, or 0 if that is the last. It is
	// set for a command that may name further keys after the last.
	Next func(args [][]byte, key int) int

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

	// MultipleToken is set if the token stands before each of the values of a Multiple argument.
	MultipleToken bool

	KeySpec int   // of a key: the index of its specification in COMMAND INFO
	Args    []Arg // the arguments of a block, or the choices of a oneof
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
	var found [][]byte
	for i := k.First; i > 0; i = k.After(args, i) {
		found = append(found, k.Key(nil, args, i))
	}
	return found
}

// After returns the index of the key after the one at i, or 0 if that is the last. The first key of a
// command that Fits is at First, if that is not 0.
func (k Keys) After(args [][]byte, i int) int {
	if k.Next != nil {
		return k.Next(args, i)
	}
	last := k.Last
	if last < 0 {
		last += len(args)
	}
	if i += k.Step; i > last {
		return 0
	}
	return i
}

// Key returns the key at the word i. If it is made of several words, it is appended to buf.
func (k Keys) Key(buf []byte, args [][]byte, i int) []byte {
	if !k.Joined {
		return args[i]
	}
	return append(append(append(buf, args[i-1]...), ':'), args[i]...)
}
