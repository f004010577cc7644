package policy

import (
	"errors"
	"strings"

	"github.com/rlproxy/rlproxy/commands/word"
)

// Builder builds a Set from lines. The zero Builder has no lines.
type Builder struct {
	drafts    map[string]*draft // by name of the policy
	overrides int               // overrides of all drafts
	size      int               // bytes of the lines
}

// draft is a policy whose overrides are being collected.
type draft struct {
	policy    *Policy
	overrides map[string]Override // by pattern
}

// Add adds a line. first is its first word, PolicyLine or OverrideLine, and words are the rest.
// An override must come after its policy. If Add returns an error, which quotes the word that is
// wrong, it has added nothing.
func (b *Builder) Add(first string, words []string) error {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	var msg string
	switch first {
	case PolicyLine:
		msg = b.addPolicy(args)
	case OverrideLine:
		msg = b.addOverride(args)
	default:
		return errors.New("a line must begin with " + PolicyLine + " or " + OverrideLine + "; it was " +
			word.Literal([]byte(first)))
	}
	if msg != "" {
		return errors.New(strings.TrimPrefix(msg, "ERR "))
	}
	return nil
}

// Clear removes the lines that begin with first. If it is PolicyLine, overrides are removed too.
func (b *Builder) Clear(first string) {
	old := b.drafts
	*b = Builder{}
	if first == PolicyLine {
		return
	}
	for _, d := range old {
		b.put(d.policy)
	}
}

func (b *Builder) addPolicy(words [][]byte) string {
	p, msg := parsePolicy(words)
	if msg != "" {
		return msg
	}
	switch {
	case b.drafts[p.Name] != nil:
		return "ERR policy " + word.Literal(words[0]) + " is set twice"
	case len(b.drafts) == MaxPolicies:
		return errPolicies
	case b.size+len(appendLine(nil, PolicyLine, p.Words())) > MaxText:
		return errLong
	}
	b.put(p)
	return ""
}

// put adds a policy without overrides.
func (b *Builder) put(p *Policy) {
	if b.drafts == nil {
		b.drafts = make(map[string]*draft)
	}
	b.drafts[p.Name] = &draft{policy: p}
	b.size += len(appendLine(nil, PolicyLine, p.Words()))
}

func (b *Builder) addOverride(words [][]byte) string {
	if len(words) == 0 || !isName(words[0]) {
		return wrongName(words)
	}
	d := b.drafts[string(words[0])]
	if d == nil {
		return Unknown(words[0]) + " in the preceding lines"
	}
	o, msg := parseOverride(d.policy, words[1:])
	if msg != "" {
		return msg
	}
	size := len(appendLine(nil, OverrideLine, o.Words(d.policy)))
	_, twice := d.overrides[o.Pattern]
	switch {
	case twice:
		return "ERR pattern " + word.Literal(words[1]) + " of policy " + word.Literal(words[0]) + " is set twice"
	case b.overrides == MaxOverrides:
		return errMany
	case b.size+size > MaxText:
		return errLong
	}
	if d.overrides == nil {
		d.overrides = make(map[string]Override)
	}
	d.overrides[o.Pattern] = o
	b.overrides++
	b.size += size
	return ""
}

// Set returns the policies of the lines.
func (b *Builder) Set() *Set {
	all := make([]*Policy, 0, len(b.drafts))
	for _, d := range b.drafts {
		p := *d.policy
		for _, o := range d.overrides {
			p.Overrides = append(p.Overrides, o)
		}
		p.seal()
		all = append(all, &p)
	}
	return newSet(all)
}
