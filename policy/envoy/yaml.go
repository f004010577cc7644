package envoy

import (
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/rlproxy/rlproxy/commands/word"
)

// A field is an entry of a map.
type field struct {
	name  string
	at    *yaml.Node // the node of the name
	value *yaml.Node // the node of the value, never an alias
}

// targets are where the fields of a map go, by name: to a *string, *bool, *count or **yaml.Node.
type targets map[string]any

// A count is an integer that is not less than least.
type count struct{ n, least int64 }

// decode reads a map into targets, and returns the nodes of its fields' names. what names the map in errors.
func (r *reader) decode(n *yaml.Node, what string, into targets) (at map[string]*yaml.Node, err error) {
	fields, err := r.fields(n, what, 0)
	at = make(map[string]*yaml.Node, len(fields))
	for _, f := range fields {
		at[f.name] = f.at
		switch to := into[f.name].(type) {
		case *string:
			*to, err = r.text(f)
		case *bool:
			*to, err = r.bool(f)
		case *count:
			err = r.count(f, to)
		case **yaml.Node:
			*to = f.value
		default:
			err = r.unknown(f)
		}
		if err != nil {
			break
		}
	}
	return at, err
}

// fields returns the entries of a map. Those that << merges come last, and only if the map does not
// have them itself. what names the map in errors, and merges is the depth of << so far.
func (r *reader) fields(n *yaml.Node, what string, merges int) ([]field, error) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil, r.errorf(n, "%s must be a map, not %s", what, kindOf(n))
	}
	var fields []field
	var merged []*yaml.Node
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i], resolve(n.Content[i+1])
		if err := r.visit(name); err != nil {
			return nil, err
		}
		switch {
		case name.Kind != yaml.ScalarNode:
			return nil, r.errorf(name, "the name of a field must be a string, not %s", kindOf(name))
		case name.ShortTag() == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case name.ShortTag() == "!!merge":
			merged = append(merged, value)
		case lines[name.Value] > 0:
			return nil, r.errorf(name, "%s appears twice, first in line %d", word.Literal([]byte(name.Value)),
				lines[name.Value])
		default:
			lines[name.Value] = name.Line
			fields = append(fields, field{name.Value, name, value})
		}
	}
	if len(merged) > 0 && merges == maxDepth {
		return nil, r.errorf(n, "<< must not be nested deeper than %d", maxDepth)
	}
	for _, m := range merged {
		if err := r.visit(m); err != nil {
			return nil, err
		}
		more, err := r.fields(m, "the value of <<", merges+1)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			if lines[f.name] == 0 {
				lines[f.name] = f.at.Line
				fields = append(fields, f)
			}
		}
	}
	return fields, nil
}

// items returns the entries of a list; n may be nil.
func (r *reader) items(n *yaml.Node, what string) ([]*yaml.Node, error) {
	switch {
	case n == nil || n.ShortTag() == "!!null":
		return nil, nil
	case n.Kind != yaml.SequenceNode:
		return nil, r.errorf(n, "%s must be a list, not %s", what, kindOf(n))
	}
	for _, item := range n.Content {
		if err := r.visit(item); err != nil {
			return nil, err
		}
	}
	return n.Content, nil
}

// visit counts an entry of a map or of a list, and returns an error if there are too many.
func (r *reader) visit(n *yaml.Node) error {
	if r.visits++; r.visits > maxVisits {
		return r.errorf(n, "more than %d entries, with those that aliases repeat", maxVisits)
	}
	return nil
}

// resolve returns the node that an alias stands for, or n if it is not an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text reads a string. A number, a date or a bool is taken as it was written.
func (r *reader) text(f field) (string, error) {
	switch f.value.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		if f.value.Kind == yaml.ScalarNode {
			return f.value.Value, nil
		}
	case "!!null":
		return "", nil
	}
	return "", r.errorf(f.value, "%s must be a string, not %s", f.name, kindOf(f.value))
}

func (r *reader) bool(f field) (bool, error) {
	var b bool
	if err := f.value.Decode(&b); err != nil {
		return false, r.errorf(f.value, "%s must be true or false, not %s", f.name, kindOf(f.value))
	}
	return b, nil
}

func (r *reader) count(f field, to *count) error {
	if f.value.ShortTag() != "!!int" || f.value.Decode(&to.n) != nil || to.n < to.least || to.n > math.MaxUint32 {
		return r.errorf(f.value, "%s must be an integer between %d and %d, not %s", f.name, to.least,
			uint32(math.MaxUint32), kindOf(f.value))
	}
	return nil
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" && n.Value == "" {
			return "empty"
		}
		return word.Literal([]byte(n.Value))
	}
	return "kind " + strconv.Itoa(int(n.Kind))
}
