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
	exact     map[pair]*descriptor     // descriptors with a value that is not a wildcard
	wildcards map[string][]*descriptor // descriptors with a wildcard by key, in the order of the files
	others    map[string]*descriptor   // descriptors without a value by key
	all       []*descriptor            // all descriptors, in the order of the files
}

// A pair is a key and a value, as an entry of a request's descriptor has them.
type pair struct{ key, value string }

// A descriptor is an entry of the configuration.
type descriptor struct {
	Position
	pair             // value is "" for any value, and lacks the * of a wildcard
	wildcard bool    // value is a prefix
	limit    *effect // nil without rate_limit, and if leftOut
	leftOut  bool    // there is a rate_limit that cannot be a policy's
	shadow   bool    // shadow_mode
	below    level   // nested descriptors
	order    int     // number that increases in the order of the files
}

// String describes the descriptor without those above it, such as user=7.
func (d *descriptor) String() string {
	text := d.value
	if d.wildcard {
		text += "*"
	}
	if text == "" {
		return plain(d.key)
	}
	return plain(d.key) + "=" + plain(text)
}

// An effect is the effect of a limit: a verdict, or a window if the verdict is VerdictNone.
type effect struct {
	verdict engine.Verdict
	window  limit.Window
}

// unlimited is the effect of an unlimited rate_limit, and of having no limit.
var unlimited = effect{verdict: engine.Unlimited}

// add adds a descriptor and returns nil. If there is one with the same key and value, add returns
// that one and adds nothing.
func (l *level) add(d *descriptor) *descriptor {
	if l.exact == nil {
		*l = level{exact: make(map[pair]*descriptor), wildcards: make(map[string][]*descriptor),
			others: make(map[string]*descriptor)}
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

// shadows reports whether d is in shadow mode and has a limit that could deny otherwise.
func (d *descriptor) shadows() bool { return d.shadow && *d.limit != unlimited }

// A class stands for all values of an entry that the configuration treats alike: one
// value, or all that begin with text and not with a longer text of another class.
type class struct {
	text  string // the value, or the prefix
	exact bool   // text is one value
}

// find returns the descriptor for an entry: the one with its value, else the first wildcard that
// matches, else the one for any value. It returns nil if there is none.
//
// For the last entry, find passes over descriptors whose limit is left out.
func (l *level) find(key string, c class, last bool) *descriptor {
	found := func(d *descriptor) bool { return d != nil && (!last || !d.leftOut) }
	if d := l.exact[pair{key, c.text}]; c.exact && found(d) {
		return d
	}
	for _, d := range l.wildcards[key] {
		if strings.HasPrefix(c.text, d.value) && found(d) {
			return d
		}
	}
	return l.others[key]
}

// decide returns the descriptor whose limit applies to a request, or nil if none does. It finds a
// descriptor for each entry below the one of the entry before, without backtracking to a less
// exact descriptor. The one of the last entry decides.
func (d *domain) decide(keys []string, classes []class) *descriptor {
	l := &d.level
	var met *descriptor
	for i, key := range keys {
		if met = l.find(key, classes[i], i == len(keys)-1); met == nil {
			return nil
		}
		l = &met.below
	}
	if met.limit == nil {
		return nil
	}
	return met
}
