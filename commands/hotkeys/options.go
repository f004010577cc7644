package hotkeys

import (
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// options are the options of RL.HOTKEYS.
type options struct {
	by    observe.Order
	count int64
	fleet bool
}

// parse parses the words after RL.HOTKEYS. It returns the options, or an error reply.
func parse(words [][]byte) (o options, msg string) {
	o.count = 10
	all := []string{"BY", "COUNT", "FLEET"}
	left := slices.Clone(all) // the options that were not given yet
	for len(words) > 0 {
		i := slices.IndexFunc(all, func(name string) bool { return word.Is(words[0], name) })
		if i < 0 {
			return o, reply.UnknownOption(words[0], left)
		}
		name := all[i]
		at := slices.Index(left, name)
		if at < 0 {
			return o, reply.OptionTwice(name)
		}
		left = slices.Delete(left, at, at+1)
		if name == "FLEET" {
			o.fleet, words = true, words[1:]
			continue
		}
		if len(words) == 1 {
			return o, reply.OptionWithoutValue(name)
		}
		if msg = o.set(name, words[1]); msg != "" {
			return o, msg + "; it was " + word.Literal(words[1])
		}
		words = words[2:]
	}
	return o, ""
}

// set sets the option with that name. It returns the beginning of an error reply, or "".
func (o *options) set(name string, value []byte) string {
	if name == "BY" {
		switch {
		case word.Is(value, "RATE"):
			o.by = observe.ByRate
		case word.Is(value, "DENIED"):
			o.by = observe.ByDenied
		default:
			return reply.ErrSyntax + ": BY must be RATE or DENIED"
		}
		return ""
	}
	var ok bool
	switch o.count, ok = word.Integer(value); {
	case !ok:
		return reply.ErrNotInteger
	case o.count < 1:
		return reply.ErrNotPositive
	}
	return ""
}
