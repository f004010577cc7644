package ratelimit

import (
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// An algorithm's command is in a file of its own, which registers it. Commands, the words of policies and their
// arguments follow from that.

// algorithm is a registered algorithm.
type algorithm struct {
	command func(g *grammar) table.Command
	limits  []table.Arg // the words for its limits
	options option      // its own, in addition to those that all decision commands have
	args    []table.Arg // of these options

	// least describes the words before the options, of which there are at least some, for errors.
	words int
	least string
	// begin parses the limits. It returns the words after them, and an error reply or "". nil: limits and windows in
	// pairs.
	begin func(r *engine.Request, words [][]byte) ([][]byte, string)
	// check returns an error reply if windows do not go with a param, else "". nil: they always do.
	check func(param int64, ws []limit.Window) string
	// limitWords returns what begin parses. nil: pairs.
	limitWords func(w limit.Window, param int64) []string
	// optionWords returns the words of the options of its own that are not the default.
	optionWords func(param, manner int64, ws []limit.Window) []string
}

// algorithms has the algorithms of which policies can be made, by kind.
var algorithms [limit.Kinds]*algorithm

// others has the commands of algorithms that have another grammar, such as CL.THROTTLE.
var others [limit.Kinds]func() Command

// register adds the command of an algorithm.
func register(k limit.Kind, a algorithm) {
	if a.words == 0 {
		a.limits, a.words, a.least = []table.Arg{pairs}, 3, "a key, a limit and a window"
	}
	algorithms[k] = &a
}

// registerOther adds a command with a grammar of its own.
func registerOther(k limit.Kind, command func() Command) {
	others[k] = command
}

// decisions returns the commands of all algorithms, by their kinds.
func decisions() (all []Command) {
	for k := range limit.Kind(limit.Kinds) {
		switch a := algorithms[k]; {
		case a != nil:
			g := grammarOf(k)
			c := a.command(g)
			c.Arity, c.Flags, c.Keys, c.Group, c.Since = -1-a.words, writesMany, g.keys, "ratelimit", "0.1.0"
			c.Args = append(append([]table.Arg{keyArg}, a.limits...), costArg)
			c.Args = append(append(c.Args, a.args...), onlyIf(k.Additive(), idArg)...)
			c.Args = append(append(c.Args, onceArg), onlyIf(k.Additive(), shardsArg)...)
			c.Args = append(c.Args, failArg, shadowArg, blockArg, andArg(append([]table.Arg{keyArg}, a.limits...)...))
			all = append(all, Command{Command: c, Parse: g.parse, Reply: replyDecision})
		case others[k] != nil:
			all = append(all, others[k]())
		}
	}
	return all
}

// onlyIf returns an argument if a condition holds.
func onlyIf(holds bool, arg table.Arg) []table.Arg {
	if holds {
		return []table.Arg{arg}
	}
	return nil
}

// Algorithm returns the word for a kind in a policy, such as SLIDE.
func Algorithm(k limit.Kind) string { return strings.TrimPrefix(k.String(), "RL.") }

// named returns the algorithm that a word of a policy names, and its kind, or nil.
func named(w []byte) (limit.Kind, *algorithm) {
	for k, a := range algorithms {
		if a != nil && word.Is(w, Algorithm(limit.Kind(k))) {
			return limit.Kind(k), a
		}
	}
	return 0, nil
}

// list returns the names of all algorithms as name gives them, separated by commas and the word or.
func list(name func(k limit.Kind) string) string {
	var names []string
	for k, a := range algorithms {
		if a != nil {
			names = append(names, name(limit.Kind(k)))
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Algorithms returns the words for all kinds that policies have, as errors list them.
func Algorithms() string { return list(Algorithm) }

// LimitWords returns the words of limits, as they follow the name of an algorithm in a policy.
func LimitWords(k limit.Kind, param int64, ws []limit.Window) (words []string) {
	for _, w := range ws {
		if a := algorithms[k]; a != nil && a.limitWords != nil {
			words = append(words, a.limitWords(w, param)...)
			continue
		}
		words = append(words, strconv.FormatInt(w.Limit, 10), WindowWord(w.Length))
	}
	return words
}

// CheckLimits returns an error reply if windows do not go with the param of a policy, else "".
func CheckLimits(k limit.Kind, param int64, ws []limit.Window) string {
	if a := algorithms[k]; a != nil && a.check != nil {
		return a.check(param, ws)
	}
	return ""
}

// OptionWords returns the words of the options that only this algorithm has, as they stand in a policy.
func OptionWords(k limit.Kind, param, manner int64, ws []limit.Window) []string {
	if a := algorithms[k]; a != nil && a.optionWords != nil {
		return a.optionWords(param, manner, ws)
	}
	return nil
}
