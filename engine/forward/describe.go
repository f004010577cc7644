package forward

// Description describes a command for permission checks.
type Description struct {
	Name       string          // in lower case; a subcommand is named as in config|get
	Categories map[string]bool // ACL categories with their @, as in @read; must not be modified
	Uses       []KeyUse        // the keys that the command names
	All        bool            // Uses has every key that the command can access

	// Whole is set if the command names no key and may see or change every key of its
	// node, as DBSIZE and SCAN may.
	Whole bool
	// ReadOnly is set if the command changes no key.
	ReadOnly bool
}

// KeyUse is a key that a command names, and how the command uses it. If neither Read nor
// Write is set, the command uses only the key's metadata.
type KeyUse struct {
	Key   []byte
	Read  bool // the command reads the value
	Write bool // the command changes the value
}

// Describe describes a command of p, by the command table of the nodes. It returns the error of a
// wrong number of words, which as in Redis comes before that of a missing right.
func (f *Forwarder) Describe(p *Pipeline, args [][]byte) (Description, error) {
	row, err := f.find(p, args)
	if err != nil {
		return Description{}, err
	}
	if !row.fits(len(args)) {
		return Description{}, row.arityError()
	}
	d := Description{Name: row.name, Categories: row.categories, All: row.complete, Whole: row.seesAll(args), ReadOnly: row.readOnly}
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, ambiguous := s.place(args)
		d.All = d.All && !ambiguous
		for k := first; ok && k <= last; k += s.step {
			d.Uses = append(d.Uses, KeyUse{Key: args[k], Read: s.access, Write: s.change})
		}
	}
	return d, nil
}
