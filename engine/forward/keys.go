package forward

import (
	"strconv"
	"strings"
)

// keySpec is a key specification of COMMAND. The search for keys begins at an index or
// after a keyword. The keys are those of a range, or their number is an argument.
type keySpec struct {
	keyword string // the search begins after this word; empty: at index
	index   int    // the argument at which the search begins, if there is no keyword
	from    int    // where to look for the keyword; negative: from the end, backwards

	byNumber bool // the number of keys is an argument; else the keys are a range
	number   int  // by number: offset of that argument from the beginning of the search
	skip     int  // by number: offset of the first key from the beginning of the search
	last     int  // range: offset of the last key from the first; negative: from the end
	limit    int  // range with a negative last: only 1/limit of the arguments, if above 1
	step     int  // distance between keys, from 1 to maxStep

	notKey bool // what is found is not a key, and only determines the node
	writes bool // the command writes to the keys
	access bool // the command reads the keys' values, for permission checks
	change bool // the command changes the keys' values, for permission checks
}

// place returns the indices in args of the first and last key. ok is false if the command
// has no such keys, or is so wrong that any node refuses it. ambiguous reports that the
// keyword occurs again, so that the key may be after the other one.
func (s *keySpec) place(args [][]byte) (first, last int, ok, ambiguous bool) {
	first = s.index
	if s.keyword != "" {
		if first, ambiguous = s.find(args); first == 0 {
			return 0, 0, false, ambiguous
		}
	}
	switch {
	case s.byNumber:
		at := first + s.number
		if at <= 0 || at >= len(args) {
			return 0, 0, false, ambiguous
		}
		n, err := strconv.Atoi(string(args[at]))
		if err != nil || n <= 0 || n > len(args) {
			return 0, 0, false, ambiguous
		}
		first += s.skip
		last = first + (n-1)*s.step
	case s.last >= 0:
		last = first + s.last
	case s.limit > 1:
		last = first + (len(args)-first)/s.limit + s.last
	default:
		last = len(args) + s.last
	}
	return first, last, 0 < first && first <= last && last < len(args), ambiguous
}

// find returns the index after the keyword, or 0 if args does not contain it. again
// reports that the keyword occurs twice.
func (s *keySpec) find(args [][]byte) (at int, again bool) {
	from, by := s.from, 1
	if from < 0 {
		from, by = len(args)+from, -1
	}
	for i := from; 0 < i && i < len(args); i += by {
		if len(args[i]) != len(s.keyword) || !strings.EqualFold(string(args[i]), s.keyword) {
			continue
		}
		if at > 0 {
			return at, true
		}
		at = i + 1
	}
	return at, false
}

// maxStep bounds the distance between keys, so that indices cannot overflow whatever a node
// replies. In real commands keys are at most a few words apart.
const maxStep = 1 << 10

// parseKeySpec parses a key specification of COMMAND. ok is false if it is unknown, or is marked as
// incomplete and that is not to be ignored, so that a node has to be asked for the keys of each
// such command.
func parseKeySpec(v any, ignoreIncomplete bool) (s keySpec, ok bool) {
	spec := pairsOf(v)
	ok = true
	for _, flag := range wordsOf(spec["flags"]) {
		switch flag {
		case "RW", "OW", "RM":
			s.writes = true
		case "access":
			s.access = true
		case "insert", "update", "delete":
			s.change = true
		case "not_key":
			s.notKey = true
		case "incomplete":
			ok = ignoreIncomplete
		}
	}
	begin, find := pairsOf(spec["begin_search"]), pairsOf(spec["find_keys"])
	at, how := pairsOf(begin["spec"]), pairsOf(find["spec"])
	switch begin["type"] {
	case "index":
		s.index = integerOf(at["index"])
	case "keyword":
		s.keyword, _ = at["keyword"].(string)
		s.from = integerOf(at["startfrom"])
	default:
		ok = false
	}
	switch find["type"] {
	case "range":
		s.last, s.limit = integerOf(how["lastkey"]), integerOf(how["limit"])
	case "keynum":
		s.byNumber, s.number, s.skip = true, integerOf(how["keynumidx"]), integerOf(how["firstkey"])
	default:
		ok = false
	}
	s.step = min(max(integerOf(how["keystep"]), 1), maxStep)
	return s, ok
}

// pairsOf converts a RESP2 array of keys and values to a map.
func pairsOf(v any) map[string]any {
	list, _ := v.([]any)
	m := make(map[string]any, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		if name, ok := list[i].(string); ok {
			m[name] = list[i+1]
		}
	}
	return m
}

func wordsOf(v any) (words []string) {
	list, _ := v.([]any)
	for _, w := range list {
		if word, ok := w.(string); ok {
			words = append(words, word)
		}
	}
	return words
}

// maxIndex bounds the integers of COMMAND, so that their sums cannot overflow.
const maxIndex = 1 << 24

func integerOf(v any) int {
	n, _ := v.(int64)
	return int(min(max(n, -maxIndex), maxIndex))
}
