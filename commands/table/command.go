// Package table describes commands, for COMMAND, COMMAND DOCS, HELP, ACL rules and docs/commands.md. Packages commands
// and ratelimit combine each description with the code that runs the command.
//
// Reading order: command.go (this file), categories.go, then info.go, docs.go and help.go, and commandcmd.go, which is
// the command COMMAND.
package table

import (
	"slices"
	"strings"
)

// Command describes one command, or one subcommand of a command.
type Command struct {
	Name  string   // in lower case; a subcommand is named as in client|setname
	Arity int      // number of words, including the name; if negative, the minimum is -Arity
	Flags []string // flags as in COMMAND INFO, such as readonly
	ACL   []string // ACL categories in addition to those that follow from the flags and the group
	Tips  []string // Redis's tips for cluster clients
	Keys  Keys     // positions of the keys
	// the command has no keys, but concerns all of them: only users who may use every key may run it
	AllKeys    bool
	Group      string     // group as in COMMAND DOCS
	Since      string     // the version of Redis, or of rlproxy, that introduced the command
	Complexity string     // time complexity, as in COMMAND DOCS
	Summary    string     // what the command does, in one sentence
	Args       []Arg      // arguments, without the name
	Replies    string     // the meaning of the reply, for the documentation
	Examples   []Example  // for the documentation; a command of Redis may have none
	Subs       []*Command // subcommands
	Bare       bool       // the command may be sent without a subcommand

	// Node is set for a command that is forwarded, which has only a Name and Subs otherwise: the first nine elements of
	// its entry in the COMMAND of a node.
	Node []any
}

// Keys gives the positions of a command's keys. The zero value means that there are none.
type Keys struct {
	First int // index of the first key among the words; the name has index 0
	Last  int // index of the last key; -1: the last word
	Step  int // distance between keys

	// Next, if it is not nil, replaces Last and Step for a command whose number of keys depends on its words. It
	// returns the index of the key after the one at an index, or 0 if that is the last.
	Next func(args [][]byte, key int) int

	// Joined is set if a key consists of the word before it, a colon and its word.
	Joined bool
}

// Arg is one argument, as in COMMAND DOCS.
type Arg struct {
	Name     string
	Type     string // key, string, integer, pattern, oneof, block or pure-token
	Token    string // the word before the value; for a pure-token, the word itself
	About    string // description for the documentation
	Optional bool   // the argument may be left out
	Multiple bool   // the argument may be repeated

	// MultipleToken is set if the token is repeated before each value of a Multiple argument.
	MultipleToken bool

	KeySpec int   // for a key: the index of its key specification in COMMAND INFO
	Args    []Arg // the arguments of a block, or the choices of a oneof
}

// Example is a command line and its reply, as redis-cli shows it.
type Example struct {
	Line  string // the command line
	Reply string // the reply
}

// Fits reports whether the command may have n words.
func (c *Command) Fits(n int) bool {
	return n == c.Arity || c.Arity < 0 && n >= -c.Arity
}

// Ours reports whether the command is one of rlproxy's, and not of Redis.
func (c *Command) Ours() bool { return strings.Contains(c.Name, ".") }

// ArityError returns the error reply to a command with a wrong number of words. Clients match on its beginning, which
// is Redis's.
func (c *Command) ArityError() string {
	msg := "ERR wrong number of arguments for '" + c.Name + "' command"
	if c.Ours() {
		msg += "; usage: " + c.Usage()
	}
	return msg
}

// Has reports whether the command has the flag.
func (c *Command) Has(flag string) bool {
	return slices.Contains(c.Flags, flag)
}

// Of returns the keys among the words of a command, of which the first is its name.
func (k Keys) Of(args [][]byte) [][]byte {
	var found [][]byte
	for i := k.First; 0 < i && i < len(args); i = k.After(args, i) {
		found = append(found, k.Key(nil, args, i))
	}
	return found
}

// After returns the index of the key after the one at i, or 0 if that is the last. The first key is
// at First, unless First is 0.
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

// Key returns the key at index i of the words. If the key is Joined, Key appends it to buf.
func (k Keys) Key(buf []byte, args [][]byte, i int) []byte {
	if !k.Joined {
		return args[i]
	}
	return append(append(append(buf, args[i-1]...), ':'), args[i]...)
}
