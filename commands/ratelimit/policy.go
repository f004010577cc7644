package ratelimit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// The grammar of named policies. A policy has the words of RL.SLIDE, RL.COUNTER or RL.FIXED after the key, but for what
// each request says: COST, ID, ONCE, DETAILS and AND. So both are parsed by the same functions, with the same errors.

// requestOptions are the options of a request by a policy, which the policy does not have.
const requestOptions = optCost | optID | optOnce | optDetails | optBlock | optAnd

// ByPolicy returns a command that answers as RL.SLIDE does, about keys that stand after the name of a
// policy. It has the flags of all such commands; c.Args are its first arguments, and c.Replies follows
// what the documentation says of all their replies.
//
// fill makes a request by the policy of that name about a key. It returns an error reply, or "".
func ByPolicy(c table.Command, fill func(r *engine.Request, p *engine.Pipeline, name, key []byte) string) Command {
	const key = 2 // index of the first key
	c.Group, c.Flags, c.Replies = "ratelimit", writesMany, asSlide+c.Replies+detailsReply
	c.Keys = table.Keys{First: key, Last: key, Step: 1, Joined: true, Next: nextKey(key)}
	first := c.Args
	c.Args = append(slices.Clone(first), costArg, idArg, onceArg, detailsArg, blockArg, andArg(first...))
	g := grammar{
		known: requestOptions, keys: c.Keys, least: "a policy and a key", words: key,
		begin: func(r *engine.Request, p *engine.Pipeline, words [][]byte) ([][]byte, string) {
			r.Cost = 1
			return words[key:], fill(r, p, words[0], words[1])
		},
	}
	return Command{Command: c, Parse: g.parse, Reply: replyDecision}
}

// PolicyArgs returns the arguments of a policy after its name.
func PolicyArgs() []table.Arg {
	one := table.Arg{Name: "algorithm", Type: "oneof", About: "as " + list(limit.Kind.String)}
	var own []table.Arg
	for k, a := range algorithms {
		if a == nil {
			continue
		}
		name := Algorithm(limit.Kind(k))
		arg := table.Arg{Name: strings.ToLower(name), Type: "pure-token", Token: name}
		if a.begin != nil {
			arg.About = "with " + strings.TrimPrefix(a.least, "a key, ") + " in place of the pairs"
		}
		one.Args = append(one.Args, arg)
		for _, arg := range a.args {
			arg.About += "; only with " + name
			own = append(own, arg)
		}
	}
	return append(append([]table.Arg{one, pairs}, own...), shardsArg, failArg, shadowArg)
}

// OverrideArgs returns the arguments of an override after its pattern.
func OverrideArgs() []table.Arg {
	return []table.Arg{{Name: "access", Type: "oneof", Args: []table.Arg{
		pairs,
		{Name: "unlimited", Type: "pure-token", Token: "UNLIMITED",
			About: "every request is allowed, and nothing is counted"},
		{Name: "blocked", Type: "pure-token", Token: "BLOCKED",
			About: "every request is denied, and nothing is counted"},
	}}}
}

// ParsePolicy parses the algorithm, pairs and options of a policy. r has them afterwards, with
// the number of shards as it is given, whatever the limits are. It returns an error reply, or "".
func ParsePolicy(r *engine.Request, words [][]byte) string {
	if len(words) == 0 {
		return reply.ErrSyntax + ": a policy has an algorithm, a limit and a window"
	}
	kind, a := named(words[0])
	switch {
	case a == nil:
		return wrong(reply.ErrSyntax+": the algorithm must be "+Algorithms(), words[0])
	case len(words) < 2:
		return reply.ErrSyntax + ": a policy has an algorithm, a limit and a window"
	}
	r.Kind = kind
	return parseLimits(r, words[1:], optionsOf(r.Kind)&^requestOptions)
}

// ParseOverride parses the pairs that replace those of a policy. r has them afterwards. The windows must have as many
// milliseconds as the policy has buckets. It returns an error reply, or "".
func ParseOverride(r *engine.Request, kind limit.Kind, words [][]byte, param int64) string {
	const grammar = reply.ErrSyntax + ": an override has limits and windows, or UNLIMITED or BLOCKED"
	switch {
	case len(words) == 0:
		return grammar
	case len(words) == 1 && !word.IsInteger(words[0]):
		return wrong(grammar, words[0])
	}
	r.Kind = kind
	msg := parseLimits(r, words, 0)
	if algorithms[kind].begin == nil {
		r.Param = 0
	}
	if msg == "" {
		msg = CheckLimits(kind, cmp.Or(r.Param, param), r.Limits())
	}
	return msg
}
