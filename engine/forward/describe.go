package forward

import (
	"slices"
	"strings"
)

// Description describes a command for permission checks.
type Description struct {
	Name       string          // in lower case; a subcommand is named as in config|get
	Categories map[string]bool // ACL categories with their @, as in @read; must not be modified
	Uses       []KeyUse        // the keys that the command names
	All        bool            // Uses has every key that the command can access

	// Whole is set if the command names no key and may see or change every key of its node, as DBSIZE and SCAN may.
	Whole bool
	// ReadOnly is set if the command changes no key.
	ReadOnly bool
}

// NodeCommand is a command that is forwarded, as COMMAND shows it.
type NodeCommand struct {
	Name   string        // in lower case; a subcommand is named as in object|encoding
	Fields []any         // the first nine elements of its entry in the nodes' COMMAND; must not be modified
	Subs   []NodeCommand // the subcommands that are forwarded
}

// Commands returns the commands that are forwarded, sorted by name. It returns none if no node says what its commands
// are.
func (f *Forwarder) Commands(p *Pipeline) []NodeCommand {
	_, _ = f.find(p, [][]byte{[]byte("command")}) // fetches the table if there is none
	if t := f.table.table.Load(); t != nil && f.On() {
		return f.entries(*t)
	}
	return nil
}

func (f *Forwarder) entries(rows commandTable) (all []NodeCommand) {
	for _, row := range rows {
		if e, ok := f.entry(row); ok {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b NodeCommand) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// entry returns the entry of a row. ok is false if neither the command nor a subcommand of it is forwarded.
func (f *Forwarder) entry(row *commandRow) (e NodeCommand, ok bool) {
	e = NodeCommand{Name: row.name, Fields: row.fields, Subs: f.entries(row.subs)}
	return e, len(e.Subs) > 0 || len(row.subs) == 0 && !f.refuses(row)
}

// KeyUse is a key that a command names, and how the command uses it. If neither Read nor Write is set, the command uses
// only the key's metadata.
type KeyUse struct {
	Key   []byte
	Read  bool // the command reads the value
	Write bool // the command changes the value
}

// Describe describes a command of p, by the command table of the nodes. It returns the error of a wrong number of
// words, which as in Redis comes before that of a missing right.
func (f *Forwarder) Describe(p *Pipeline, args [][]byte) (Description, error) {
	row, err := f.find(p, args)
	if err != nil {
		return Description{}, err
	}
	if !row.fits(len(args)) {
		return Description{}, row.arityError()
	}
	d := Description{
		Name: row.name, Categories: row.categories, All: row.complete, Whole: row.seesAll(args), ReadOnly: row.readOnly,
	}
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, ambiguous := s.Range(args)
		d.All = d.All && !ambiguous
		for k := first; ok && k <= last; k += s.Step {
			d.Uses = append(d.Uses, KeyUse{Key: args[k], Read: s.Access, Write: s.Change})
		}
	}
	return d, nil
}
