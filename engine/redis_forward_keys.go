package engine

import (
	"bytes"
	"strconv"
	"strings"
)

// keySpec says where some of a command's keys stand, as the node's COMMAND tells it:
// where to begin, at an index or after a keyword, and how to go on, over a range or
// by a number that stands among the arguments.
type keySpec struct {
	keyword string // begins after this word; empty: at index
	index   int
	from    int // where to look for the keyword; negative: from the end, backwards

	byNumber bool
	number   int // where the number of keys stands, from the beginning
	skip     int // where the first key stands, from the beginning, by number
	last     int // the last key, from the first; negative: from the end
	limit    int // of a range to the end, only this part of it: 2 is half
	step     int

	writes bool

	access, change bool // what it does to the keys' values, for users' rules
}

// place returns the indices in args of the first and last key. ok is false if the
// command has no such keys, or is wrong in a way for which any node refuses it.
// unsure means that the keyword is there again, and the key may be after that one.
func (s *keySpec) place(args [][]byte) (first, last int, ok, unsure bool) {
	first = s.index
	if s.keyword != "" {
		if first, unsure = s.find(args); first == 0 {
			return 0, 0, false, unsure
		}
	}
	switch {
	case s.byNumber:
		if first+s.number >= len(args) {
			return 0, 0, false, unsure
		}
		n, err := strconv.Atoi(string(args[first+s.number]))
		if err != nil || n <= 0 || n > len(args) {
			return 0, 0, false, unsure
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
	return first, last, first <= last && last < len(args), unsure
}

// find returns the index after the keyword, 0 if it is not there.
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

// reservedPrefix begins the stored keys of rate limits, which ordinary commands may
// read but not write.
const reservedPrefix = "rl:"

func reserved(key []byte) bool { return bytes.HasPrefix(key, []byte(reservedPrefix)) }

// parseKeySpec reads one key specification of COMMAND. ok is false if it does not
// tell all: then the node has to be asked for the keys of each command.
func parseKeySpec(v any) (s keySpec, ok bool) {
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
		case "incomplete":
			ok = false
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
	s.step = max(integerOf(how["keystep"]), 1)
	return s, ok
}

// pairsOf reads a map, which RESP2 writes as an array of keys and values.
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

func integerOf(v any) int {
	n, _ := v.(int64)
	return int(n)
}
