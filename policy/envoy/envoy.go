// Package envoy turns configurations of envoyproxy/ratelimit into policies.
//
// There, a request has a domain and a descriptor: a list of keys with values, like
// (user=7), (path=/login). The configuration is a tree that is searched level by level,
// and each list of values has a counter of its own. Here, the domain and the keys become
// the name of a policy, and the values, joined by a separator, the client's key:
//
//	RL.CHECK shop.user.path /login|7
//
// What the tree says of all values is the policy; what it says of some is an override. An
// override is for one key or for a prefix, so the order in which the values are joined
// decides what can be said, and the importer looks for an order that says everything.
//
// Reading order: read.go reads a file into the tree, and yaml.go the values in it; tree.go is how that project searches
// it; shape.go gathers the keys that get a policy each; order.go finds the order and the
// overrides; write.go has the texts; command.go is the command line.
package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// Options are the choices of a user of the importer.
type Options struct {
	// Algorithm is one that counts cost in windows. Fixed counts as that project does.
	Algorithm limit.Kind
	// Separator separates the values of a client's key.
	Separator string
}

// A Place is a line of a file.
type Place struct {
	File string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// A Remark describes a part of a line that is not carried over, and what happens instead.
type Remark struct {
	Place
	Text string
}

// Import is what files were turned into.
type Import struct {
	// Policies are in the order of the files.
	Policies []Policy
	// Remarks are in the order of the files and lines. Without any, the policies decide as
	// that project does.
	Remarks []Remark

	options Options
	files   []string // names, as given
}

// A Policy is what becomes of the limits of one domain and one sequence of descriptor keys.
type Policy struct {
	policy.Policy
	// Place is that of the first limit.
	Place Place
	// Domain is the domain of the requests.
	Domain string
	// Keys are the keys of a descriptor, in that project's order.
	Keys []string
	// Order is the order of the values in a client's key: the value of Keys[Order[0]] comes
	// first.
	Order []int
}

// A Source is a file to read.
type Source struct {
	Name string
	Text []byte
}

// Read turns files into policies. Files of one domain are merged. An error begins with
// the place of a part that that project would also refuse, or that is too large.
func Read(sources []Source, options Options) (*Import, error) {
	im := &Import{options: options}
	r := reader{domains: make(map[string]*domain), remark: im.remark}
	for _, s := range sources {
		im.files = append(im.files, s.Name)
		if err := r.file(s); err != nil {
			return nil, err
		}
	}
	names := make(map[string]bool)
	left := maxCombinations
	for _, d := range r.ordered {
		for _, s := range shapes(d) {
			policies, err := s.policies(names, &left, im)
			if err != nil {
				return nil, err
			}
			im.Policies = append(im.Policies, policies...)
		}
	}
	if _, err := policy.Parse(im.Lines()); err != nil {
		return nil, fmt.Errorf("rlproxy would not accept the output: %w", err)
	}
	index := make(map[string]int, len(im.files))
	for i, name := range im.files {
		index[name] = i
	}
	slices.SortStableFunc(im.Remarks, func(a, b Remark) int {
		return cmp.Or(cmp.Compare(index[a.File], index[b.File]), cmp.Compare(a.Line, b.Line))
	})
	if len(im.Policies) == 0 && len(im.Remarks) == 0 {
		return nil, errors.New("there is no limit in " + list(im.files))
	}
	return im, nil
}

func (im *Import) remark(at Place, text string) {
	im.Remarks = append(im.Remarks, Remark{at, text})
}
