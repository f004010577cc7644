package config

import (
	"fmt"
	"slices"

	"github.com/rlproxy/rlproxy/commands/word"
)

// Change sets a directive as CONFIG SET does: a value has the words of all lines. It returns
// why the value is not allowed, or "".
func (d *Directive) Change(c *Config, value string) (why string) {
	words, err := word.SplitLine(value)
	if err != nil {
		return err.Error()
	}
	v, lines := d.value(c), [][]string{words}
	if l, ok := v.(inOne); ok {
		l.clear()
		lines = l.lines(words)
	}
	for _, words := range lines {
		if !v.set(words) {
			return refusal(v, words)
		}
	}
	return ""
}

// With returns c with the live settings of next, and the other directives whose settings differ.
func (c *Config) With(next *Config) (merged *Config, waiting []*Directive) {
	both := *c
	for _, d := range c.Changed(next, false) {
		if !d.Live {
			waiting = append(waiting, d)
			continue
		}
		v := d.value(&both)
		if p, ok := v.(policyLines); ok {
			*p.p = next.Policies // both directives at once, since overrides belong to policies
			continue
		}
		if r, ok := v.(repeated); ok {
			r.clear()
		}
		for _, words := range d.value(next).words() {
			v.set(words) // next holds these words, so they are allowed
		}
	}
	return &both, waiting
}

// Changed returns the directives whose settings differ; with bySet, only those that CONFIG SET
// can change.
func (c *Config) Changed(next *Config, bySet bool) (found []*Directive) {
	for i := range directives {
		d := &directives[i]
		if d.value != nil && (d.BySet || !bySet) &&
			!slices.EqualFunc(d.value(next).words(), d.value(c).words(), slices.Equal) {
			found = append(found, d)
		}
	}
	return found
}

// Changes returns attributes of a log line about the directive, whose setting is from in one configuration and to in
// another. They hold no passwords.
func (d *Directive) Changes(from, to *Config) []any {
	if d.secret {
		return []any{"directive", d.Name}
	}
	return []any{"directive", d.Name, "from", d.Setting(from), "to", d.Setting(to)}
}

// Setting returns the setting of a directive that has no passwords, cut to 512 characters for the log.
func (d *Directive) Setting(c *Config) string {
	return fmt.Sprintf("%.512s", joinLines(d.value(c).words()))
}
