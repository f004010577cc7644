package engine

// Ordinary is what rules for users need to know of an ordinary command.
type Ordinary struct {
	Name       string          // in lower case; a subcommand's is config|get
	Categories map[string]bool // as @read; whoever has it must not change it
	Uses       []KeyUse
	All        bool // Uses is every key that it can touch
}

// KeyUse is a key that a command names, and what it does to the key's value.
type KeyUse struct {
	Key         []byte
	Read, Write bool // neither: it only asks about the key
}

// Describe tells what an ordinary command is, by what the nodes say of it.
func (e *Redis) Describe(args [][]byte) (Ordinary, error) {
	row, err := e.command(args)
	if err != nil {
		return Ordinary{}, err
	}
	o := Ordinary{Name: row.name, Categories: row.categories, All: row.told}
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, unsure := s.place(args)
		o.All = o.All && !unsure
		for k := first; ok && k <= last; k += s.step {
			o.Uses = append(o.Uses, KeyUse{Key: args[k], Read: s.access, Write: s.change})
		}
	}
	return o, nil
}
