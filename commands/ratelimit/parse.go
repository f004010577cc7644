package ratelimit

import (
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// The grammar of the rate limit commands. Words are parsed once, from left to right, and the first wrong word
// determines the error, which quotes it (errors.go). A command without a mistake allocates nothing.
//
// Details:
//   - The first pair has a fixed place: its two words are never read as options.
//   - An integer too large for 64 bits is still an integer: in the place of a limit it is a
//     limit out of range, not a syntax error.
//   - Units of windows are lower case. 1M is not a window, since it could mean a month. Words such as month may have
//     any case.
//   - A ninth pair is too many as soon as its limit is read.
//   - The value of an option is never read as an option: in ID COST, the ID is COST.
//   - AND may come where an option may, and begins another key (and.go).

// option is a set of options.
type option uint32

const (
	optCost option = 1 << iota
	optID
	optShards
	optFail
	optShadow
	optOnce
	optAnd
	optTTL
	optLapse
	optConn
	optDetails
	optBlock

	optOwn // the first of those that only one algorithm has: see newOption
)

// maxBlock is the longest time, in ms, for which a request may wait to be admitted.
const maxBlock = 3_600_000

// commonOptions are the options of RL.SLIDE, RL.COUNTER and RL.FIXED.
const commonOptions = optCost | optID | optShards | optFail | optShadow | optOnce | optBlock | optAnd

// optionNames has the options, in the order in which errors list them. newOption adds to them.
var optionNames = []optionName{
	{optCost, "COST", nil}, {optID, "ID", nil}, {optOnce, "ONCE", nil}, {optTTL, "TTL", nil}, {optLapse, "LAPSE", nil},
	{optConn, "CONN", nil}, {optShards, "SHARDS", nil}, {optFail, "FAIL", nil}, {optShadow, "SHADOW", nil},
	{optDetails, "DETAILS", nil}, {optBlock, "BLOCK", nil}, {optAnd, "AND", nil},
}

type optionName struct {
	option option
	name   string
	set    func(r *engine.Request, value []byte) string // of an option of one algorithm; nil for one without a value
}

// flagOptions are the options without a value; ownFlags are those of them that one algorithm has, which set Manner to
// 1.
var (
	flagOptions = optShadow | optConn | optDetails
	ownFlags    option
)

var nextOwn = optOwn

// newOption adds an option that only one algorithm has, after COST and those added before. set parses its value, and
// returns an error reply or "". An option without a value sets the request's Manner to 1.
func newOption(name string, set func(r *engine.Request, value []byte) string) option {
	o, at := nextOwn, 1
	nextOwn <<= 1
	for optionNames[at].option >= optOwn {
		at++
	}
	optionNames = slices.Insert(optionNames, at, optionName{o, name, set})
	if set == nil {
		flagOptions, ownFlags = flagOptions|o, ownFlags|o
	}
	return o
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

func optionsOf(kind limit.Kind) option {
	known := commonOptions | algorithms[kind].options
	if !kind.Additive() {
		known &^= optID | optShards
	}
	return known
}

// parseLimits parses the pairs and options of a policy, and checks what does not depend on the cost.
// It returns an error reply, or "".
func parseLimits(r *engine.Request, words [][]byte, known option) string {
	r.Cost, r.Param = 1, 1
	options, msg := beginLimits(r, words, known)
	if msg == "" {
		_, _, msg = parseOptions(r, options, known, algorithms[r.Kind].begin == nil)
	}
	if msg == "" {
		msg = checkWindows(r.Limits(), words)
	}
	return msg
}

// beginLimits parses the limits of a request of a kind. It returns the words after them, and an error reply or "".
func beginLimits(r *engine.Request, words [][]byte, known option) ([][]byte, string) {
	if begin := algorithms[r.Kind].begin; begin != nil {
		return begin(r, words)
	}
	return parsePairs(r, words, known)
}

// parsePairs parses limits and windows. It returns the words after the last pair, and an error reply or "".
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
		length, msg := windowOf(r.Kind, words[1])
		if msg != "" {
			return nil, msg
		}
		r.Windows[r.N] = limit.Window{Limit: most, Length: length}
		r.N++
		words = words[2:]
	}
	return words, ""
}

// parseOptions parses the words after the last pair, or after the key of a command without pairs, up to the word AND.
// It returns the words after that, which options there were, AND among them, and an error reply or "".
func parseOptions(r *engine.Request, words [][]byte, known option, pairs bool) (after [][]byte, seen option,
	msg string) {
	for len(words) > 0 {
		o := optionOf(words[0]) & known
		switch {
		case o == 0:
			return nil, seen, unknownOption(words[0], known, seen, pairs)
		case seen&o != 0:
			return nil, seen, reply.OptionTwice(o.String())
		}
		seen |= o
		if o == optAnd {
			return words[1:], seen, ""
		}
		if o&flagOptions != 0 {
			if o&ownFlags != 0 {
				r.Manner = 1
			}
			r.Shadow, r.Details = r.Shadow || o == optShadow, r.Details || o == optDetails
			words = words[1:]
			continue
		}
		if len(words) == 1 {
			return nil, seen, reply.OptionWithoutValue(o.String())
		}
		if msg := setOption(r, o, words[1]); msg != "" {
			return nil, seen, msg
		}
		words = words[2:]
	}
	return nil, seen, ""
}

// nextAnd returns the index of the first AND among words from index i on, an index in front of an option; len(words) if
// there is none. Where the words are a command without a mistake, it is the AND at which parseOptions stops.
func nextAnd(words [][]byte, i int) int {
	for i < len(words) {
		switch o := optionOf(words[i]); {
		case o == optAnd:
			return i
		case o == 0 || o&flagOptions != 0: // a limit and a window are no options
			i++
		default:
			i += 2
		}
	}
	return len(words)
}

// setOption parses the value of an option. It returns an error reply, or "".
func setOption(r *engine.Request, o option, value []byte) string {
	switch o {
	case optID:
		r.ID = value
		if r.Hold != nil && !r.Hold.Once { // of RL.RESERVE and RL.ACQUIRE
			return setID(r.Hold, value)
		}
		return ""
	case optFail:
		var ok bool
		if r.Fail, ok = engine.ParseFailPolicy(value); !ok {
			return wrong(errPolicy, value)
		}
		return ""
	case optOnce:
		r.Hold = &engine.Hold{Once: true}
		return setID(r.Hold, value)
	case optTTL:
		return setTTL(r, value)
	case optLapse:
		return setLapse(r.Hold, value)
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
	case optBlock:
		if !ok || n < 1 || n > maxBlock {
			return wrong(reply.ErrBlock, value)
		}
		r.Block = n
	default:
		return optionNames[slices.IndexFunc(optionNames, func(of optionName) bool { return of.option == o })].set(r,
			value)
	}
	return ""
}

// checkWindows returns an error reply if two windows are equal, else "". pairs begins with the words of the pairs.
func checkWindows(ws []limit.Window, pairs [][]byte) string {
	for i := range ws {
		for j := range i {
			if ws[i].Length == ws[j].Length {
				return duplicate(pairs[2*j+1], pairs[2*i+1])
			}
		}
	}
	return ""
}

// checkRequest checks the cost against every limit, and reduces the number of shards to the
// smallest limit. It returns an error reply, or "".
func checkRequest(r *engine.Request) string {
	for _, w := range r.Limits() {
		if r.Cost > w.Limit {
			return tooCostly(r.Cost, w.Limit)
		}
		r.Shards = int(min(int64(r.Shards), w.Limit))
	}
	return ""
}

// MayBlock reports whether the words of a command may have the option BLOCK.
func MayBlock(args [][]byte) bool {
	return slices.ContainsFunc(args[1:], func(w []byte) bool { return word.Is(w, "BLOCK") })
}

func keyFits(key []byte) bool {
	return len(key) >= 1 && len(key) <= engine.MaxKey
}
