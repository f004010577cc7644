package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// commandRow is one command, or subcommand, as the node's COMMAND tells it.
type commandRow struct {
	name    string
	arity   int
	specs   []keySpec
	told    bool   // the specs tell all keys of every form of the command
	keyless bool   // without keys, it is about all that a node has
	partial bool   // the specs do not tell all keys that it may write: ask the node
	option  string // it blocks only with this word before its keys
	refusal string // why it is not passed on; empty: it is
	split   merge  // how to join the replies when its keys lie on several nodes
	spread  merge  // how to join those of all nodes, if it has no keys
	subs    map[string]*commandRow

	categories map[string]bool // of users' rules, with their @
}

// commandTable is what a node says of its commands. It never changes.
type commandTable map[string]*commandRow

// commands are those that nodes know. One node is asked for all: nodes of one
// backend list are meant to be alike.
type commands struct {
	table atomic.Pointer[commandTable]
	stale atomic.Bool // a node was connected to since, and may be another by now

	mu    sync.Mutex
	asked time.Duration // guarded by mu: by the engine's own clock; 0: never
	err   error         // guarded by mu: of the last question
}

// learnEvery is the least time between two questions for the table: an unknown
// command may be new, and clients may send many.
const learnEvery = time.Second

// Errors of commands that the nodes do not know. Their texts are the caller's.
var (
	ErrUnknownCommand    = errors.New("ERR unknown command")
	ErrUnknownSubcommand = errors.New("ERR unknown subcommand")
)

// command finds the row of a command, asking a node for the table if need be.
func (e *Redis) command(args [][]byte) (*commandRow, error) {
	t := e.commands.table.Load()
	if t == nil || e.commands.stale.Load() {
		if err := e.learn(t); err != nil && t == nil {
			return nil, err
		}
		t = e.commands.table.Load()
	}
	row, err := t.find(args)
	if err != nil && e.learn(t) == nil {
		row, err = e.commands.table.Load().find(args)
	}
	return row, err
}

// find returns the row of a command and its subcommand.
func (t commandTable) find(args [][]byte) (*commandRow, error) {
	var buf [64]byte
	row := t[string(lower(buf[:0], args[0]))]
	if row == nil {
		return nil, ErrUnknownCommand
	}
	if len(row.subs) == 0 || len(args) < 2 {
		return row, nil
	}
	if row = row.subs[string(lower(buf[:0], args[1]))]; row == nil {
		return nil, ErrUnknownSubcommand
	}
	return row, nil
}

// lower appends b in lower case; nothing of what is longer than any name.
func lower(dst, b []byte) []byte {
	if len(b) > cap(dst) {
		return dst
	}
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// learn replaces the table, old being the one that does not do. It returns nil if
// there is one afterwards that was asked for lately.
func (e *Redis) learn(old *commandTable) error {
	k := &e.commands
	if old == nil {
		k.mu.Lock()
	} else if !k.mu.TryLock() {
		return nil // somebody is asking: the old one serves until then
	}
	defer k.mu.Unlock()
	if k.table.Load() != old {
		return nil
	}
	now, every := e.elapsed(), learnEvery
	if old == nil {
		every = findSoon
	}
	if k.asked > 0 && now-k.asked < every {
		return k.err
	}
	k.asked = max(now, 1)
	table, err := e.askCommands()
	if k.err = err; err == nil {
		k.table.Store(&table)
		k.stale.Store(false)
	}
	return err
}

// askCommands asks the nodes in turn until one answers.
func (e *Redis) askCommands() (commandTable, error) {
	nodes := e.topology.Load().nodes
	var err error = &Unavailable{nodes[0].name, nodes[0].health.reason()}
	for _, n := range nodes {
		if n.client == nil || n.health.down() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), e.config.ForwardTimeout)
		reply, failure := n.lanes.of(n, 2).client.Do(ctx, "command").Slice()
		cancel()
		if failure == nil {
			return parseCommands(reply, e.config.ForwardAdmin), nil
		}
		n.noteForward(failure)
		err = &Unavailable{n.name, why(failure)}
	}
	return nil, err
}

// parseCommands reads the reply of COMMAND.
func parseCommands(reply []any, admin bool) commandTable {
	t := make(commandTable, len(reply))
	for _, v := range reply {
		if row, name := parseCommand(v, admin); row != nil {
			t[name] = row
		}
	}
	return t
}

func parseCommand(v any, admin bool) (row *commandRow, name string) {
	f, _ := v.([]any)
	if len(f) < 10 { // Redis 7.0 was the first to tell that much
		return nil, ""
	}
	full, _ := f[0].(string)
	row = &commandRow{name: full, arity: integerOf(f[1])}
	flags, categories, tips := setOf(f[2]), setOf(f[6]), setOf(f[7])
	specs, _ := f[8].([]any)
	whole := true
	for _, v := range specs {
		s, ok := parseKeySpec(v)
		s.writes = s.writes && !flags["readonly"]
		if whole = whole && ok; ok {
			row.specs = append(row.specs, s)
		}
	}
	row.partial = !whole && !flags["readonly"] || flags["movablekeys"] && len(row.specs) == 0
	row.told = whole && (len(row.specs) > 0 || !flags["movablekeys"])
	row.categories = categories
	row.judge(flags, categories, admin)
	row.policies(tips)
	row.keyless = flags["no_mandatory_keys"] || len(specs) == 0 && (flags["readonly"] || flags["write"] || hasPolicy(tips, "request_policy:"))
	subs, _ := f[9].([]any)
	for _, v := range subs {
		if sub, name := parseCommand(v, admin); sub != nil {
			if row.subs == nil {
				row.subs = make(map[string]*commandRow)
			}
			row.subs[name] = sub
		}
	}
	return row, lastWord(full)
}

func setOf(v any) map[string]bool {
	set := make(map[string]bool)
	for _, w := range wordsOf(v) {
		set[w] = true
	}
	return set
}
