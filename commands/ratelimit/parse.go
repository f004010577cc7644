package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// The grammar of the rate limit commands. Words are parsed once, from left to right, and
// the first wrong word determines the error, which quotes it (errors.go). A command without
// a mistake allocates nothing.
//
// Details:
//   - The first pair has a fixed place: its two words are never read as options.
//   - An integer too large for 64 bits is still an integer: in the place of a limit it is a
//     limit out of range, not a syntax error.
//   - Units of windows are lower case. 1M is not a window, since it could mean a month.
//   - A ninth pair is too many as soon as its limit is read.
//   - The value of an option is never read as an option: in ID COST, the ID is COST.

// option is a set of options.
type option uint8

const (
	optCost option = 1 << iota
	optID
	optShards
	optFail
	optBuckets
	optStrict
)

// commonOptions are the options of all RL decision commands.
const commonOptions = optCost | optID | optShards | optFail

// optionNames has the name of each option, in the order in which errors list them.
var optionNames = [...]optionName{
	{optCost, "COST"}, {optBuckets, "BUCKETS"}, {optStrict, "STRICT"}, {optID, "ID"}, {optShards, "SHARDS"}, {optFail, "FAIL"},
}

type optionName struct {
	option option
	name   string
}

// optionOf returns the option that a word names, in any case, or 0.
func optionOf(w []byte) option {
	for i := range optionNames {
		if word.Is(w, optionNames[i].name) {
			return optionNames[i].option
		}
	}
	return 0
}

// parseDecision returns the parser of a decision command with the known options.
func parseDecision(kind limit.Kind, known option) func([][]byte, *engine.Pipeline) string {
	return func(args [][]byte, p *engine.Pipeline) string {
		r := p.Add()
		r.Kind, r.Key, r.Cost, r.Buckets = kind, args[1], 1, 1
		if !keyFits(r.Key) {
			return keyError(r.Key)
		}
		rest, msg := parsePairs(r, args[2:], known)
		if msg == "" {
			msg = parseOptions(r, rest, known)
		}
		if msg == "" {
			msg = checkRequest(r, args[2:])
		}
		return msg
	}
}

// parsePairs parses limits and windows. It returns the words after the last pair, and an
// error reply or "".
func parsePairs(r *engine.Request, words [][]byte, known option) ([][]byte, string) {
	for len(words) > 0 {
		most, ok := word.Integer(words[0])
		if !ok && r.N > 0 && !word.IsInteger(words[0]) {
			break
		}
		if r.N == limit.MaxWindows {
			return nil, tooMany(words[0])
		}
		if !ok || most < 1 || most > limit.MaxLimit {
			return nil, wrong(reply.ErrLimit, words[0])
		}
		if len(words) == 1 || r.N > 0 && optionOf(words[1])&known != 0 {
			return nil, noWindow(words[0])
		}
		length, ok := window(words[1])
		if !ok {
			return nil, wrong(reply.ErrWindow, words[1])
		}
		r.Windows[r.N] = limit.Window{Limit: most, Length: length}
		r.N++
		words = words[2:]
	}
	return words, ""
}

// parseOptions parses the words after the last pair. It returns an error reply, or "".
func parseOptions(r *engine.Request, words [][]byte, known option) string {
	var seen option
	for len(words) > 0 {
		o := optionOf(words[0]) & known
		switch {
		case o == 0:
			return unknownOption(words[0], known, seen)
		case seen&o != 0:
			return givenTwice(o)
		}
		seen |= o
		if o == optStrict {
			r.Strict = true
			words = words[1:]
			continue
		}
		if len(words) == 1 {
			return noValue(o)
		}
		if msg := setOption(r, o, words[1]); msg != "" {
			return msg
		}
		words = words[2:]
	}
	return ""
}

// setOption parses the value of an option. It returns an error reply, or "".
func setOption(r *engine.Request, o option, value []byte) string {
	if o == optID {
		r.ID = value
		return ""
	}
	if o == optFail {
		r.Fail = policyOf(value)
		if r.Fail == engine.FailDefault {
			return wrong(errPolicy, value)
		}
		return ""
	}
	n, ok := word.Integer(value)
	switch o {
	case optCost:
		if !ok || n < 0 || n > limit.MaxLimit {
			return wrong(reply.ErrCost, value)
		}
		r.Cost = n
	case optShards:
		if !ok || n < 1 || n > engine.MaxShards {
			return wrong(reply.ErrShards, value)
		}
		r.Shards = int(n)
	case optBuckets:
		if !ok || n < 1 || n > limit.MaxBuckets {
			return wrong(reply.ErrBuckets, value)
		}
		for _, w := range r.Windows[:r.N] {
			if n > w.Length {
				return tooFine(n, w.Length)
			}
		}
		r.Buckets = n
	}
	return ""
}

// checkRequest checks the words together. pairs begins with the words of the pairs. It reduces
// the number of shards to the smallest limit. It returns an error reply, or "".
func checkRequest(r *engine.Request, pairs [][]byte) string {
	ws := r.Windows[:r.N]
	for i := range ws {
		for j := range i {
			if ws[i].Length == ws[j].Length {
				return duplicate(pairs[2*j+1], pairs[2*i+1])
			}
		}
	}
	for _, w := range ws {
		if r.Cost > w.Limit {
			return tooCostly(r.Cost, w.Limit)
		}
		r.Shards = int(min(int64(r.Shards), w.Limit))
	}
	return ""
}

func keyFits(key []byte) bool {
	return len(key) >= 1 && len(key) <= engine.MaxKey
}
