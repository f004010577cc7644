package forward

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine/forward/keyspec"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

// commandRow is a command or subcommand, as a node's COMMAND describes it.
type commandRow struct {
	name       string // in lower case; a subcommand is named as in config|get
	arity      int    // number of words; negative: the minimum
	specs      []keyspec.Spec
	complete   bool                   // the specs find all keys of every form of the command
	keyless    bool                   // without keys, the command concerns the whole node
	readOnly   bool                   // the command changes no key
	whileBusy  bool                   // a node runs the command although it is busy with a script
	askKeys    bool                   // the specs do not find all keys that the command may write: ask a node for them
	traits     trait                  // the properties that are not in the reply to COMMAND
	form       form                   // refuses some forms of the command; nil: none
	noMulti    bool                   // the command is not allowed between MULTI and EXEC
	refusal    string                 // the error if the command is not forwarded; empty: it is
	admin      bool                   // refusal is for want of Settings.Admin
	mergeKeys  merge                  // how to merge the replies if the keys are on several nodes
	mergeNodes merge                  // how to merge the replies of all nodes if there are no keys
	subs       map[string]*commandRow // subcommands by name, without the command's
	fields     []any                  // what COMMAND says, without the subcommands; must not be modified

	categories map[string]bool // ACL categories with their @
}

// commandTable holds a node's commands by name. It is immutable.
type commandTable map[string]*commandRow

// tableCache caches the table of one node for all nodes, which are assumed to run the same version.
type tableCache struct {
	table atomic.Pointer[commandTable]
	stale atomic.Bool // a connection was opened since, possibly to another server

	now     func() time.Time  // time.Now, except in tests
	missing *episodes.Episode // while there is no table

	mu    sync.Mutex
	asked time.Time // when the last request for the table ended; zero: never; guarded by mu
	err   error     // the error of the last request; guarded by mu
}

// open prepares the cache, which has no table yet.
func (c *tableCache) open(log *slog.Logger, now func() time.Time) {
	c.now, c.missing = now, episodes.New(log, now, episodes.Trouble{
		Began: "cannot forward commands yet: no node answers COMMAND",
		Ended: "commands are forwarded: a node has answered COMMAND",
	})
}

// suspect makes the next command fetch the table again.
func (c *tableCache) suspect() { c.stale.Store(true) }

// Unknown commands may be new, so they fetch the table again. Clients may send many of them, so there is a minimum
// pause between two requests for the table.
const (
	learnEvery = time.Second            // the pause while there is a table
	learnSoon  = 100 * time.Millisecond // the pause while there is none
)

// Errors of commands that the nodes do not know. The caller replies with its own texts.
var (
	ErrUnknownCommand    = errors.New("ERR unknown command")
	ErrUnknownSubcommand = errors.New("ERR unknown subcommand")
)

// find returns the row of a command of p. It fetches the table if there is none or the command is not in it.
func (f *Forwarder) find(p *Pipeline, args [][]byte) (*commandRow, error) {
	if !f.On() {
		return nil, ErrUnknownCommand
	}
	t := f.table.table.Load()
	if t == nil || f.table.stale.Load() {
		if p.noTable != nil && t == nil {
			return nil, p.noTable
		}
		if err := f.learn(p, t); err != nil && t == nil {
			p.noTable = err
			return nil, err
		}
		t = f.table.table.Load()
	}
	row, err := t.find(args)
	if err != nil && f.learn(p, t) == nil {
		row, err = f.table.table.Load().find(args)
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

// lower appends b in lower case. It appends nothing if b does not fit, since it is then longer than any name.
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

// learn fetches the table in place of old, unless it was fetched a short time ago. It returns nil if there is a usable
// table afterwards.
func (f *Forwarder) learn(p *Pipeline, old *commandTable) error {
	c := &f.table
	if old == nil {
		c.mu.Lock()
	} else if !c.mu.TryLock() {
		return nil // another goroutine is fetching it: use the old table
	}
	defer c.mu.Unlock()
	if c.table.Load() != old {
		return nil
	}
	every := learnEvery
	if old == nil {
		every = learnSoon
	}
	if !c.asked.IsZero() && c.now().Sub(c.asked) < every {
		return c.err
	}
	r, err := f.ask(p, "command")
	if err == nil && r.err != nil {
		err = unavailable(r.node, r.err.Error())
	}
	c.learned(r.array, err)
	return err
}

// learned notes the reply to COMMAND, or why there is none. mu is held.
func (c *tableCache) learned(reply []any, err error) {
	c.asked, c.err = c.now(), err
	if err == nil {
		table := parseCommands(reply)
		c.table.Store(&table)
		c.stale.Store(false)
		c.missing.End()
	} else if c.table.Load() == nil {
		c.missing.Note("times", 1, func() []any { return []any{"error", err} })
	}
}

func parseCommands(reply []any) commandTable {
	t := make(commandTable, len(reply))
	for _, v := range reply {
		if row, name := parseCommand(v); row != nil {
			t[name] = row
		}
	}
	return t
}

func parseCommand(v any) (row *commandRow, name string) {
	f, _ := v.([]any)
	if len(f) < 10 { // older than Redis 7.0
		return nil, ""
	}
	full, _ := f[0].(string)
	full = strings.ToLower(full) // a module may register its commands in upper case
	row = &commandRow{name: full, arity: keyspec.Integer(f[1]), fields: f[:9]}
	flags, categories, tips := setOf(f[2]), setOf(f[6]), setOf(f[7])
	specs, _ := f[8].([]any)
	all := true
	for _, v := range specs {
		s, ok := keyspec.Parse(v, traitsOf(full)&specsSuffice != 0)
		s.Writes = s.Writes && !flags["readonly"]
		if all = all && ok; ok {
			row.specs = append(row.specs, s)
		}
	}
	row.askKeys = !all && !flags["readonly"] || flags["movablekeys"] && len(row.specs) == 0
	row.complete = all && (len(row.specs) > 0 || !flags["movablekeys"])
	row.readOnly, row.noMulti, row.whileBusy = flags["readonly"], flags["no_multi"], flags["allow_busy"]
	row.categories = categories
	row.judge(flags, categories)
	row.readTips(tips)
	row.keyless = flags["no_mandatory_keys"] || len(specs) == 0 &&
		(row.admin || flags["readonly"] || flags["write"] || hasPolicy(tips, "request_policy:"))
	subs, _ := f[9].([]any)
	for _, v := range subs {
		if sub, name := parseCommand(v); sub != nil {
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
	for _, w := range keyspec.Words(v) {
		set[w] = true
	}
	return set
}
