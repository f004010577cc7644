package ratelimit

import (
	"bytes"
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
)

// A multi-key request (AND) is one engine.Request per key. The requests that the engine must
// decide together come first, and the first of them has the number of those that follow. The others
// come after them: a key with SHADOW is decided on its own, since a shadow denies nothing, and a key
// that an override makes unlimited or blocked is not decided by the engine at all.

// maxKeys is the most keys of a multi-key request.
const maxKeys = 8

// grammar describes the syntax of a decision command: either key, limits, windows and options, or
// policy, key and options.
type grammar struct {
	known option
	many  bool // several limits and windows may come before the options
	pairs bool // limits and windows come before the options
	keys  table.Keys
	words int    // least number of words before the options
	least string // description of these words, for errors

	// begin parses the words before the options. It returns the words after them, and an error reply or "".
	begin func(r *engine.Request, p *engine.Pipeline, words [][]byte) ([][]byte, string)
}

func grammarOf(kind limit.Kind) *grammar {
	const key = 1 // index of the first key
	known := optionsOf(kind)
	return &grammar{
		known: known, pairs: true, many: algorithms[kind].begin == nil, words: algorithms[kind].words,
		least: algorithms[kind].least,
		keys:  table.Keys{First: key, Last: key, Step: 1, Next: nextKey(key)},
		begin: func(r *engine.Request, _ *engine.Pipeline, words [][]byte) ([][]byte, string) {
			r.Kind, r.Key, r.Cost, r.Param = kind, words[0], 1, 1
			if !keyFits(r.Key) {
				return nil, keyError(r.Key)
			}
			return beginLimits(r, words[1:], known)
		},
	}
}

// nextKey returns the table.Keys.Next function of a command whose keys come distance words after its
// name and after each AND.
func nextKey(distance int) func(words [][]byte, key int) int {
	return func(words [][]byte, key int) int {
		if next := nextAnd(words, key+1) + distance; next < len(words) {
			return next
		}
		return 0
	}
}

// parse appends a request for each key. It returns an error reply, or "".
func (g *grammar) parse(args [][]byte, p *engine.Pipeline) string {
	first, words, details := len(p.Requests), args[1:], false
	for and := true; and; {
		others := len(p.Requests) - first
		switch {
		case len(words) < g.words:
			return reply.ErrSyntax + ": AND must be followed by " + g.least
		case others == maxKeys:
			return tooManyKeys(words[g.keys.First-1])
		}
		r := p.Add()
		options, msg := g.begin(r, p, words)
		if msg != "" {
			return msg
		}
		var seen option
		if words, seen, msg = parseOptions(r, options, g.known, g.many); msg != "" {
			return msg
		}
		and = seen&optAnd != 0
		details = details || r.Details
		if seen&optOnce != 0 && (and || others > 0) {
			return notAlone(optOnce)
		}
		if r.Block > 0 && (and || others > 0) {
			return reply.ErrBlockAnd
		}
		if g.pairs {
			r.Key = p.Name(r.Key, r.Shadow)
		}
	}
	requests := p.Requests[first:]
	if len(requests) > 1 {
		for i := range requests {
			requests[i].Details = details
		}
		return g.join(args, requests)
	}
	msg := ""
	if g.pairs {
		msg = checkWindows(requests[0].Limits(), args[2:])
	}
	if msg == "" {
		msg = checkRequest(&requests[0])
	}
	return msg
}

// join checks the requests of a multi-key request, and arranges them for the engine. It returns an error reply, or "".
func (g *grammar) join(args [][]byte, requests []engine.Request) string {
	var at [maxKeys]int // indexes of the keys
	for i, key := 0, g.keys.First; i < len(requests); i++ {
		at[i], key = key, g.keys.Next(args, key)
	}
	if g.pairs {
		for i := range requests {
			if msg := checkWindows(requests[i].Limits(), args[at[i]+1:]); msg != "" {
				return msg
			}
		}
	}
	for i := range requests {
		for j := range i {
			if g.same(args, at[i], at[j]) || bytes.Equal(requests[i].Key, requests[j].Key) {
				return sameKey(g.keys.Key(nil, args, at[i]))
			}
		}
	}
	for i := range requests {
		if msg := checkRequest(&requests[i]); msg != "" {
			return msg
		}
	}
	arrange(requests)
	return ""
}

// same reports whether the words at i and j are the same key.
func (g *grammar) same(args [][]byte, i, j int) bool {
	return bytes.Equal(args[i], args[j]) && (!g.keys.Joined || bytes.Equal(args[i-1], args[j-1]))
}

// Together makes one multi-key request of requests about keys, each of which must be there once. The answers are those
// of AND: KeyNumber says for which of the requests. It returns an error reply, or "".
func Together(requests []engine.Request) string {
	for i := range requests {
		switch {
		case i == maxKeys:
			return tooManyKeys(requests[i].Key)
		case slices.ContainsFunc(requests[:i], func(r engine.Request) bool {
			return bytes.Equal(r.Key, requests[i].Key)
		}):
			return sameKey(requests[i].Key)
		}
	}
	if len(requests) > 1 {
		arrange(requests)
	}
	return ""
}

// arrange gives each request its place, and brings those together that the engine must decide together.
func arrange(requests []engine.Request) {
	blocked := slices.ContainsFunc(requests, func(r engine.Request) bool {
		return !r.Shadow &&
			r.Verdict == engine.Blocked
	})
	together := 0
	for i := range requests {
		r := &requests[i]
		r.KeyNumber = uint8(i + 1)
		if blocked && !alone(r) {
			r.Verdict = engine.Unasked
		}
		if !alone(r) {
			together++
		}
	}
	if together == 0 {
		return
	}
	if together < len(requests) {
		slices.SortStableFunc(requests, func(a, b engine.Request) int {
			return rank(&a) - rank(&b)
		})
	}
	requests[0].MoreKeys = together - 1
}

// alone reports whether a key's request is not decided with the others.
func alone(r *engine.Request) bool { return r.Shadow || r.Verdict != engine.VerdictNone }

// rank sorts requests that are decided together before the others.
func rank(r *engine.Request) int {
	if alone(r) {
		return 1
	}
	return 0
}

// replyMultiKey encodes the reply to a multi-key request: five integers for each, of which the
// first is the same for all, or one error.
func replyMultiKey(dst []byte, requests []engine.Request, results []engine.Result) []byte {
	allowed, err := verdictOf(requests, results)
	if err != nil {
		return appendFailure(dst, err)
	}
	dst = resp.AppendArray(dst, len(requests))
	for number := range requests {
		_, d := keyDecision(requests, results, number)
		dst = appendDecision(dst, allowed, &d)
	}
	return dst
}

// verdictOf returns 1 if requests that are decided together are allowed, else 0, or the error that the client gets.
func verdictOf(requests []engine.Request, results []engine.Result) (allowed int64, err error) {
	allowed = 1
	for i := range requests {
		switch res := &results[i]; {
		case requests[i].Shadow: // denies nothing
		case res.Err != nil:
			return 0, res.Err
		case !res.Allowed:
			allowed = 0
		}
	}
	return allowed, nil
}

// keyDecision returns the request about the key at a place, from 0, in the order in which they were given, and what a
// client is told of it.
func keyDecision(requests []engine.Request, results []engine.Result, place int) (*engine.Request, limit.Decision) {
	i := 0
	if len(requests) > 1 {
		i = slices.IndexFunc(requests, func(r engine.Request) bool { return int(r.KeyNumber) == place+1 })
	}
	r, res := &requests[i], &results[i]
	if r.Shadow && (res.Fail != engine.FailDefault || res.Err != nil) {
		return r, engine.FailOpen.Decide(r, 0)
	}
	return r, res.Decision
}

const multiKeyReply = shadowReply + " With AND: an array with five integers for each key, in order, all with the " +
	"same first one, even those with SHADOW; a key that had room has " +
	"retry_after 0. Keys of a denied request that were not asked, since the policy of another blocks it, get 0, " +
	"limit, 0, 0 and 0. " +
	"FAIL with AND: the FAIL policy of the first key whose node does not answer answers for the whole request, " +
	"and units held for other keys are given back; keys that were charged before the node failed stay charged."

// andArg returns the argument AND of a command whose keys begin with the given arguments.
func andArg(key ...table.Arg) table.Arg {
	args := slices.Clone(key)
	for i := range args {
		args[i].About, args[i].KeySpec = "", 1
		args[i].Args = slices.Clone(args[i].Args)
		for j := range args[i].Args {
			args[i].Args[j].About = ""
		}
	}
	args = append(args, table.Arg{Name: "option", Type: "string", Optional: true, Multiple: true})
	return table.Arg{
		Name: "and", Type: "block", Token: "AND", Optional: true, Multiple: true, MultipleToken: true, Args: args,
		About: "another key, with options of its own except for ONCE; at most 8 keys, each once. Either all have " +
			"room and all are charged, or none is. " +
			"A key with SHADOW is decided and charged by itself, whether the others have room or not, and denies " +
			"nothing",
	}
}

// tooManyKeys returns the error about one more key than a multi-key request may have.
func tooManyKeys(key []byte) string {
	return reply.ErrKeys + "; another was " + word.Literal(key)
}

// sameKey returns the error about a key that is named twice.
func sameKey(key []byte) string {
	return reply.ErrSameKey + ": " + word.Literal(key) + " is given twice"
}
