package envoy

import (
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// A domain is the root of a tree of descriptors.
type domain struct {
	name string
	level
}

// A level has the descriptors below a descriptor, or below a domain.
type level struct {
	exact     map[pair]*descriptor
	wildcards map[string][]*descriptor // by key, in the order of the files
	others    map[string]*descriptor   // by key; those without a value
	all       []*descriptor            // in the order of the files
}

// A pair is an entry of a descriptor.
type pair struct{ key, value string }

// A descriptor is an entry of the configuration.
type descriptor struct {
	Place
	pair     // value is "" for any value, and without its * for a wildcard
	wildcard bool
	limit    *effect // nil without rate_limit
	shadow   bool
	below    level
	order    int // counts descriptors, in the order of the files
}

// An effect is that of a limit: a window if there is no verdict.
type effect struct {
	verdict engine.Verdict
	window  limit.Window
}

// unlimited is also the effect where there is no limit.
var unlimited = effect{verdict: engine.Unlimited}

// add adds a descriptor. It returns the one with the same key and value, if there is one.
func (l *level) add(d *descriptor) *descriptor {
	if l.exact == nil {
		*l = level{exact: make(map[pair]*descriptor), wildcards: make(map[string][]*descriptor), others: make(map[string]*descriptor)}
	}
	switch {
	case d.wildcard:
		for _, w := range l.wildcards[d.key] {
			if w.value == d.value {
				return w
			}
		}
		l.wildcards[d.key] = append(l.wildcards[d.key], d)
	case d.value == "":
		if other := l.others[d.key]; other != nil {
			return other
		}
		l.others[d.key] = d
	default:
		if other := l.exact[d.pair]; other != nil {
			return other
		}
		l.exact[d.pair] = d
	}
	l.all = append(l.all, d)
	return nil
}

// shadows reports whether the limit of d is one that would deny, were it not in shadow mode.
func (d *descriptor) shadows() bool { return d.shadow && *d.limit != unlimited }

// A class stands for all values of an entry that the configuration treats alike: one
// value, or all that begin with text and with no longer text of another class.
type class struct {
	text  string
	exact bool
}

// find returns the descriptor that an entry meets: the one with its value, else the first
// wildcard that matches, else the one for any value.
func (l *level) find(key string, c class) *descriptor {
	if c.exact {
		if d := l.exact[pair{key, c.text}]; d != nil {
			return d
		}
	}
	for _, d := range l.wildcards[key] {
		if strings.HasPrefix(c.text, d.value) {
			return d
		}
	}
	return l.others[key]
}

// decide returns the descriptor whose limit holds for a request, or nil: what the last
// entry meets, when each entry meets something below what the one before met. There is
// no way back to a less exact descriptor.
func (d *domain) decide(keys []string, classes []class) *descriptor {
	l := &d.level
	var met *descriptor
	for i, key := range keys {
		if met = l.find(key, classes[i]); met == nil {
			return nil
		}
		l = &met.below
	}
	if met.limit == nil {
		return nil
	}
	return met
}
