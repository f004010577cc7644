package envoy

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/policy"
)

// Lines returns the policies as lines of a configuration, with comments that say which RL.CHECK
// to send for each descriptor.
func (im *Import) Lines() string {
	var b strings.Builder
	im.head(&b)
	for i := range im.Policies {
		p := &im.Policies[i]
		fmt.Fprintf(&b, "\n# %s, %v\n", p.descriptor(), p.At)
		p.write(&b, policy.PolicyLine, policy.OverrideLine)
	}
	return b.String()
}

// Commands returns the policies as commands, one per line.
func (im *Import) Commands() string {
	var b strings.Builder
	for i := range im.Policies {
		im.Policies[i].write(&b, "RL.POLICY SET", "RL.POLICY OVERRIDE")
	}
	return b.String()
}

// head writes comments that say which RL.CHECK to send for each descriptor.
func (im *Import) head(b *strings.Builder) {
	fmt.Fprintf(b, "# Imported by rlproxy from %s, for envoyproxy/ratelimit.\n#\n", list(im.files))
	b.WriteString("# For each descriptor of a request, send the command below, with the values in place of their " +
		"keys.\n")
	b.WriteString("# hits_addend becomes COST. If a descriptor is listed twice, send both commands. If it is not " +
		"listed, it has no limit.\n# Where keys have several values, write % as %25 and | as %7C in each. With " +
		"rls-port, rlproxy does all that for Envoy.\n#\n")
	width := 0
	for i := range im.Policies {
		width = max(width, len(im.Policies[i].descriptor()))
	}
	for i := range im.Policies {
		p := &im.Policies[i]
		fmt.Fprintf(b, "#   %-*s   RL.CHECK %s %s", width, p.descriptor(), p.Name, p.key())
		if p.Shadow {
			b.WriteString("   (shadow_mode: denies nothing)")
		}
		b.WriteByte('\n')
	}
}

// write writes the lines of a policy and its overrides. They begin with set and override.
func (p *Imported) write(b *strings.Builder, set, override string) {
	line := func(first string, words []string) {
		b.WriteString(first)
		for _, w := range words {
			b.WriteString(" " + word.InLine(w))
		}
		b.WriteByte('\n')
	}
	line(set, p.Words())
	for i := range p.Overrides {
		line(override, p.Overrides[i].Words(&p.Policy))
	}
}

// descriptor returns the domain and the keys for a comment: shop (user), (path).
func (p *Imported) descriptor() string {
	return plain(p.Domain) + " " + keyNames(p.Keys)
}

// key returns the client's key with the descriptor's keys in place of their values.
func (p *Imported) key() string {
	parts := make([]string, len(p.Keys))
	for i, key := range p.Keys {
		if p.Order != nil {
			key = p.Keys[p.Order[i]]
		}
		parts[i] = "<" + plain(key) + ">"
	}
	return strings.Join(parts, separator)
}

// keyNames returns the keys of a descriptor: (user), (path).
func keyNames(keys []string) string {
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = "(" + plain(key) + ")"
	}
	return strings.Join(quoted, ", ")
}

// plain returns s for a comment or a remark: unchanged, or quoted if it could be misread.
func plain(s string) string {
	odd := func(c rune) bool {
		return !unicode.IsGraphic(c) || unicode.IsSpace(c) ||
			strings.ContainsRune(`'"\,()<>`+string(unicode.ReplacementChar), c)
	}
	if s == "" || len(s) > word.Quoted || strings.ContainsFunc(s, odd) {
		return word.Literal([]byte(s))
	}
	return s
}

// list joins names: a, b and c.
func list(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = plain(name)
	}
	if n := len(quoted); n > 1 {
		return strings.Join(quoted[:n-1], ", ") + " and " + quoted[n-1]
	}
	return strings.Join(quoted, "")
}
