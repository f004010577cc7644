package commands

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
)

// row is one command, or one subcommand of a command.
type row struct {
	name    string // lower case; a subcommand's is "client|setname"
	arity   int    // words with the name; negative: at least that many
	flags   []string
	acl     []string // categories beside those that the flags say
	tips    []string // what cluster clients may know, in Redis's words
	keys    keys
	group   string
	since   string // the version of rlproxy, or of Redis where it has the command
	cost    string // time complexity
	summary string
	args    []arg
	replies string    // what the reply means, for the documentation
	example []example // a conversation, for the documentation
	subs    []row

	// A command is for the engine (parse and reply) or runs here (run).

	// parse appends a command's requests to the pipeline, or returns an error.
	parse func(args [][]byte, p *engine.Pipeline) string
	// reply appends the reply to the requests that parse made.
	reply func(dst []byte, proto int, results []engine.Result) []byte
	// run appends its own reply.
	run func(c *client, args [][]byte)

	// barrier rows change how the session reads or answers later commands, so
	// everything before them is answered first, and they run at once. Other rows
	// that run here wait for the engine's answers to the commands before them.
	barrier bool
	// early rows may be sent before a login (the flag no_auth of Redis).
	early bool
	// direct rows run inside MULTI, where others are queued.
	direct bool
	// subscribed rows may be sent by a RESP2 client that has subscribed.
	subscribed bool
	// loud rows answer by messages, which CLIENT REPLY does not silence.
	loud bool

	wrong string // the error for a wrong number of words; set by newTable if empty
}

// keys says where a command's keys stand: words first to last (-1: the last
// word), each step-th. Zero: none.
type keys struct {
	first, last, step int
}

// arg is one argument as COMMAND DOCS tells it.
type arg struct {
	name     string
	typ      string // key, string, integer, pattern, oneof, block, pure-token
	token    string // the word before the value, or the word itself
	about    string // for the documentation
	optional bool
	multiple bool
	args     []arg // of a block or oneof
}

// example is a command line and what redis-cli shows for its reply.
type example struct {
	line, reply string
}

// table finds rows by name.
type table struct {
	rows   []*row          // commands, sorted by name
	byName map[string]*row // commands and subcommands
}

// newTable builds the table. It is a function because some rows run methods that
// read the table.
func newTable() *table {
	t := &table{byName: make(map[string]*row)}
	for _, family := range [][]row{
		{slideRow(), counterRow(), fixedRow(), throttleRow(), resetRow(), inspectRow(), hotKeysRow()},
		connectionRows(), clientRows(), serverRows(), aclRows(),
		commandRows(), transactionRows(), subscribeRows(),
	} {
		for i := range family {
			t.add(&family[i])
		}
	}
	slices.SortFunc(t.rows, func(a, b *row) int { return strings.Compare(a.name, b.name) })
	return t
}

func (t *table) add(r *row) {
	t.rows = append(t.rows, r)
	t.index(r)
	for i := range r.subs {
		t.index(&r.subs[i])
	}
}

func (t *table) index(r *row) {
	if r.wrong == "" {
		r.wrong = "ERR wrong number of arguments for '" + r.name + "' command"
	}
	t.byName[r.name] = r
}

// get returns the row of that name, in any case, or nil. It does not allocate.
func (t *table) get(name []byte) *row {
	var buf [32]byte
	low, ok := lower(buf[:0], name)
	if !ok {
		return nil
	}
	return t.byName[string(low)]
}

// sub returns the row of a subcommand, or nil.
func (t *table) sub(r *row, name []byte) *row {
	var buf [64]byte
	low, ok := lower(append(append(buf[:0], r.name...), '|'), name)
	if !ok {
		return nil
	}
	return t.byName[string(low)]
}

// lower appends b in lower case to dst, and tells whether dst had room for it.
func lower(dst, b []byte) ([]byte, bool) {
	if len(b) > cap(dst)-len(dst) {
		return nil, false
	}
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst, true
}

// fits tells whether n words suit the row's arity.
func (r *row) fits(n int) bool {
	return n == r.arity || r.arity < 0 && n >= -r.arity
}

// has tells whether the row has the flag.
func (r *row) has(flag string) bool {
	return slices.Contains(r.flags, flag)
}
