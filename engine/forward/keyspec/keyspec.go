// Package keyspec reads the key specifications of COMMAND, by which the keys of a command are found among its words.
package keyspec

import (
	"strconv"
	"strings"
)

// Spec is a key specification of COMMAND. The search for keys begins at an index or after a keyword. The keys are those
// of a range, or their number is an argument.
type Spec struct {
	keyword string // the search begins after this word; empty: at index
	Index   int    // the argument at which the search begins, if there is no keyword
	from    int    // where to look for the keyword; negative: from the end, backwards

	byNumber bool // the number of keys is an argument; else the keys are a range
	Number   int  // by number: offset of that argument from the beginning of the search
	skip     int  // by number: offset of the first key from the beginning of the search
	Last     int  // range: offset of the last key from the first; negative: from the end
	limit    int  // range with a negative last: only 1/limit of the arguments, if above 1
	Step     int  // distance between keys, from 1 to maxStep

	NotKey bool // what is found is not a key, and only determines the node
	Writes bool // the command writes to the keys
	Access bool // the command reads the keys' values, for permission checks
	Change bool // the command changes the keys' values, for permission checks
}

// Range returns the indices in args of the first and last key. ok is false if the command has no such keys, or is so
// wrong that any node refuses it. ambiguous reports that the keyword occurs again, so that the key may be after the
// other one.
func (s *Spec) Range(args [][]byte) (first, last int, ok, ambiguous bool) {
	first = s.Index
	if s.keyword != "" {
		if first, ambiguous = s.find(args); first == 0 {
			return 0, 0, false, ambiguous
		}
	}
	switch {
	case s.byNumber:
		at := first + s.Number
		if at <= 0 || at >= len(args) {
			return 0, 0, false, ambiguous
		}
		n, err := strconv.Atoi(string(args[at]))
		if err != nil || n <= 0 || n > len(args) {
			return 0, 0, false, ambiguous
		}
		first += s.skip
		last = first + (n-1)*s.Step
	case s.Last >= 0:
		last = first + s.Last
	case s.limit > 1:
		last = first + (len(args)-first)/s.limit + s.Last
	default:
		last = len(args) + s.Last
	}
	return first, last, 0 < first && first <= last && last < len(args), ambiguous
}

// find returns the index after the keyword, or 0 if args does not contain it. again reports that the keyword occurs
// twice.
func (s *Spec) find(args [][]byte) (at int, again bool) {
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

// maxStep bounds the distance between keys, so that indices cannot overflow whatever a node replies. In real commands
// keys are at most a few words apart.
const maxStep = 1 << 10

// Parse parses a key specification of COMMAND. ok is false if it is unknown, or is marked as incomplete and that is not
// to be ignored, so that a node has to be asked for the keys of each such command.
func Parse(v any, ignoreIncomplete bool) (s Spec, ok bool) {
	spec := pairsOf(v)
	ok = true
	for _, flag := range Words(spec["flags"]) {
		switch flag {
		case "RW", "OW", "RM":
			s.Writes = true
		case "access":
			s.Access = true
		case "insert", "update", "delete":
			s.Change = true
		case "not_key":
			s.NotKey = true
		case "incomplete":
			ok = ignoreIncomplete
		}
	}
	begin, find := pairsOf(spec["begin_search"]), pairsOf(spec["find_keys"])
	at, how := pairsOf(begin["spec"]), pairsOf(find["spec"])
	switch begin["type"] {
	case "index":
		s.Index = Integer(at["index"])
	case "keyword":
		s.keyword, _ = at["keyword"].(string)
		s.from = Integer(at["startfrom"])
	default:
		ok = false
	}
	switch find["type"] {
	case "range":
		s.Last, s.limit = Integer(how["lastkey"]), Integer(how["limit"])
	case "keynum":
		s.byNumber, s.Number, s.skip = true, Integer(how["keynumidx"]), Integer(how["firstkey"])
	default:
		ok = false
	}
	s.Step = min(max(Integer(how["keystep"]), 1), maxStep)
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

// Words returns the words of a RESP2 array.
func Words(v any) (words []string) {
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

// Integer returns an integer of COMMAND, within bounds.
func Integer(v any) int {
	n, _ := v.(int64)
	return int(min(max(n, -maxIndex), maxIndex))
}
