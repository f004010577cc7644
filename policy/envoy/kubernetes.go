package envoy

import (
	"go.yaml.in/yaml/v3"

	"github.com/rlproxy/rlproxy/commands/word"
)

// document reads a document: a configuration, or an object of Kubernetes that contains some.
func (r *reader) document(n *yaml.Node) error {
	if resolve(n).Kind != yaml.MappingNode {
		return r.root(n) // which returns the error
	}
	fields, err := r.fields(n, "the configuration", 0)
	if err != nil {
		return err
	}
	object := make(map[string]*yaml.Node, len(fields))
	for _, f := range fields {
		object[f.name] = f.value
	}
	kind := object["kind"]
	switch {
	case kind == nil || object["apiVersion"] == nil:
		return r.root(n)
	case kind.Value == "ConfigMap":
		return r.configMap(object["data"])
	case kind.Value == "List" && !r.inList:
		return r.list(object["items"])
	}
	r.remark(r.at(n), "only ConfigMaps are read, and a List of them, and not the kind "+
		word.Literal([]byte(kind.Value)))
	return nil
}

// list reads the objects of a List.
func (r *reader) list(items *yaml.Node) error {
	r.inList = true
	defer func() { r.inList = false }()
	all, err := r.items(items, "items")
	for _, item := range all {
		if err == nil {
			err = r.document(item)
		}
	}
	return err
}

// configMap reads the configurations that are the data of a ConfigMap; data may be nil.
func (r *reader) configMap(data *yaml.Node) error {
	if data == nil || data.ShortTag() == "!!null" {
		return nil
	}
	files, err := r.fields(data, "data", 0)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := r.text(f)
		if err != nil {
			return err
		}
		inside := reader{domains: r.domains, ordered: r.ordered, remark: r.remark, visits: r.visits, name: r.name}
		if f.value.Style == yaml.LiteralStyle { // its lines are lines of the file
			inside.before = r.before + f.value.Line
		} else {
			inside.name += " (" + plain(f.name) + ")"
		}
		if err := inside.documents([]byte(text), inside.root); err != nil {
			return err
		}
		r.ordered, r.visits = inside.ordered, inside.visits
	}
	return nil
}
