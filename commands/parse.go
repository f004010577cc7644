package commands

import "github.com/rlproxy/rlproxy/engine"

// The grammar of the rate limit commands. Words are read once, from left to
// right, and the first that is wrong names the error. Nothing is allocated.
//
// Where the contract leaves room:
//   - An integer too large for 64 bits is still an integer: at a limit's place it
//     is a limit out of range, not a syntax error.
//   - Units of windows are lower case: 1M is not a window, so that nobody takes it
//     for a month.
//   - A ninth pair is too many as soon as its limit is seen.
//   - An option's value is never read as an option: ID COST names the subject COST.

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

// commonOptions are known by every decision command of ours.
const commonOptions = optCost | optID | optShards | optFail

// optionOf returns the option that a word names, in any case, or 0.
func optionOf(word []byte) option {
	switch {
	case fold(word, "COST"):
		return optCost
	case fold(word, "ID"):
		return optID
	case fold(word, "SHARDS"):
		return optShards
	case fold(word, "FAIL"):
		return optFail
	case fold(word, "BUCKETS"):
		return optBuckets
	case fold(word, "STRICT"):
		return optStrict
	}
	return 0
}

// parseDecision returns the parser of a decision command that knows the options.
func parseDecision(op engine.Op, known option) func([][]byte, *engine.Pipeline) string {
	return func(args [][]byte, p *engine.Pipeline) string {
		r := p.Add()
		r.Op, r.Key, r.Cost, r.Buckets = op, args[1], 1, 1
		if !keyFits(r.Key) {
			return errKey
		}
		rest, msg := parsePairs(r, args[2:], known)
		if msg == "" {
			msg = parseOptions(r, rest, known)
		}
		if msg == "" {
			msg = checkWhole(r)
		}
		return msg
	}
}

// parsePairs reads limits and windows and returns the words from the first option
// on.
func parsePairs(r *engine.Request, words [][]byte, known option) ([][]byte, string) {
	for len(words) > 0 {
		limit, ok := integer(words[0])
		if !ok && !isInteger(words[0]) {
			if r.N > 0 && optionOf(words[0])&known != 0 {
				break
			}
			return nil, errSyntax
		}
		if r.N == engine.MaxWindows {
			return nil, errWindows
		}
		if !ok || limit < 1 || limit > engine.MaxLimit {
			return nil, errLimit
		}
		if len(words) == 1 || optionOf(words[1])&known != 0 {
			return nil, errSyntax
		}
		length, ok := window(words[1])
		if !ok {
			return nil, errWindow
		}
		r.Windows[r.N] = engine.Window{Limit: limit, Length: length}
		r.N++
		words = words[2:]
	}
	return words, ""
}

// parseOptions reads the words after the last pair.
func parseOptions(r *engine.Request, words [][]byte, known option) string {
	var seen option
	for len(words) > 0 {
		o := optionOf(words[0]) & known
		if o == 0 || seen&o != 0 {
			return errSyntax
		}
		seen |= o
		if o == optStrict {
			r.Strict = true
			words = words[1:]
			continue
		}
		if len(words) == 1 {
			return errSyntax
		}
		if msg := setOption(r, o, words[1]); msg != "" {
			return msg
		}
		words = words[2:]
	}
	return ""
}

// setOption reads an option's value.
func setOption(r *engine.Request, o option, value []byte) string {
	if o == optID {
		r.ID = value
		return ""
	}
	if o == optFail {
		r.Fail = policyOf(value)
		if r.Fail == engine.PolicyDefault {
			return errSyntax
		}
		return ""
	}
	n, ok := integer(value)
	switch o {
	case optCost:
		if !ok || n < 0 || n > engine.MaxLimit {
			return errCost
		}
		r.Cost = n
	case optShards:
		if !ok || n < 1 || n > engine.MaxParts {
			return errShards
		}
		r.Shards = int(n)
	case optBuckets:
		if !ok || n < 1 || n > engine.MaxBuckets {
			return errBuckets
		}
		for _, w := range r.Windows[:r.N] {
			if n > w.Length {
				return errFine
			}
		}
		r.Buckets = n
	}
	return ""
}

// checkWhole checks what no single word shows, and gives a key no more sub-shards
// than its smallest limit has units.
func checkWhole(r *engine.Request) string {
	ws := r.Windows[:r.N]
	for i := range ws {
		for j := range i {
			if ws[i].Length == ws[j].Length {
				return errDuplicate
			}
		}
	}
	for _, w := range ws {
		if r.Cost > w.Limit {
			return errTooCostly
		}
		r.Shards = int(min(int64(r.Shards), w.Limit))
	}
	return ""
}

func keyFits(key []byte) bool {
	return len(key) >= 1 && len(key) <= engine.MaxKey
}
