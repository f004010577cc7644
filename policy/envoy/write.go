package envoy

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/policy"
)

// policyName returns the name of a policy: the domain and the keys, joined by dots, with a dash for
// each character that a name cannot have, and a suffix. Long names are shortened and get a hash.
// names has the names that are taken; policyName adds the new one.
func policyName(names map[string]bool, domain string, keys []string, suffix string) string {
	whole := domain + "." + strings.Join(keys, ".")
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
			return c
		}
		return '-'
	}, whole)
	if len(name)+len(suffix) > policy.MaxName {
		h := fnv.New32a()
		_, _ = h.Write([]byte(whole)) // never fails
		suffix = fmt.Sprintf("-%08x", h.Sum32()) + suffix
	}
	for n := 1; ; n++ {
		end := suffix
		if n > 1 {
			end += "-" + strconv.Itoa(n)
		}
		if taken := name[:min(len(name), policy.MaxName-len(end))] + end; !names[taken] {
			names[taken] = true
			return taken
		}
	}
}

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
		"listed, it has no limit.\n#\n")
	width := 0
	for i := range im.Policies {
		width = max(width, len(im.Policies[i].descriptor()))
	}
	for i := range im.Policies {
		p := &im.Policies[i]
		fmt.Fprintf(b, "#   %-*s   RL.CHECK %s %s", width, p.descriptor(), p.Name, p.key(im.options.Separator))
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
func (p *Imported) key(separator string) string {
	parts := make([]string, len(p.Order))
	for k, i := range p.Order {
		parts[k] = "<" + plain(p.Keys[i]) + ">"
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
