// Package envoy turns configurations of envoyproxy/ratelimit into policies.
//
// In envoyproxy/ratelimit, a request has a domain and a descriptor: a list of keys with values,
// like (user=7), (path=/login). The configuration is a tree that is searched level by level,
// and each list of values has a counter of its own. In rlproxy, the domain and the keys become
// the name of a policy, and the values, joined by |, become the client's key:
//
//	RL.CHECK shop.user.path /login|7
//
// The limit that the tree has for all values becomes the policy, and the limits for some values
// become overrides. An override is for one key or for a prefix, so the order in which the values
// are joined determines what can be expressed. The importer looks for an order in which
// everything can be.
//
// Reading order: read.go reads a file into the tree, and yaml.go the values in it; tree.go
// searches the tree as envoyproxy/ratelimit does; shape.go collects the sequences of keys that
// get a policy each; order.go finds the order and the overrides; match.go has the names of policies
// and the keys of clients; write.go formats the output; command.go is the command line.
package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// Options are the options of an import.
type Options struct {
	// Algorithm is limit.Fixed, limit.Slide or limit.Counter. Fixed counts as
	// envoyproxy/ratelimit does.
	Algorithm limit.Kind
}

// A Position is a line of a file.
type Position struct {
	File string // name of the file
	Line int    // number of the line, from 1
}

func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// A Remark describes a part of a line that is not carried over, and the effect of that.
type Remark struct {
	Position
	Text string
}

// Import is the result of an import.
type Import struct {
	// Policies are in the order of the files.
	Policies []Imported
	// Remarks are in the order of the files and lines. If there are none, the policies decide
	// as envoyproxy/ratelimit does.
	Remarks []Remark

	options Options
	files   []string // names of the files, as given
}

// Imported has the limits of one domain and one sequence of descriptor keys.
type Imported struct {
	policy.Policy
	// At is the place of the first limit.
	At Position
	// Domain is the domain of the requests.
	Domain string
	// Keys are the keys of a descriptor, in the order of envoyproxy/ratelimit.
	Keys []string
}

// Input is a file to import.
type Input struct {
	Name string // name of the file, for errors and remarks
	Text []byte // content of the file
}

// Read turns files into policies. Files of one domain are merged. Read returns an error if
// envoyproxy/ratelimit would also refuse a file, or if a file or the result is too large. If the
// error is about a file, it begins with the place.
func Read(sources []Input, options Options) (*Import, error) {
	im := &Import{options: options}
	r := reader{domains: make(map[string]*domain), remark: im.remark}
	for _, s := range sources {
		im.files = append(im.files, s.Name)
		if err := r.file(s); err != nil {
			return nil, err
		}
	}
	names := make(map[string]*shape)
	left := maxCombinations
	for _, d := range r.ordered {
		for _, s := range shapes(d) {
			im.Policies = append(im.Policies, s.policies(names, &left, im)...)
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

func (im *Import) remark(at Position, text string) {
	im.Remarks = append(im.Remarks, Remark{at, text})
}
