package engine

import (
	"bytes"
	"errors"
	"strconv"
)

// merge says how the replies of several nodes become one.
type merge uint8

const (
	mergeNone   merge = iota
	mergeSum          // integers, added up
	mergeOK           // all the same status
	mergeArrays       // an element for each key, in the keys' order
)

// split is a command on its way to several nodes. Each part runs on its own: other
// clients' commands may come between them.
type split struct {
	at    int // the request's index in its pipeline
	how   merge
	parts []splitPart
	order []int // of mergeArrays: the part that has each key
}

// splitPart is what one node has to do: for a cluster, with one slot's keys.
type splitPart struct {
	node int
	req  Request
	res  Result
}

// splitKeys splits request i by where its keys lie. The row's keys go from the first
// argument to the last, with what belongs to each behind it.
func splitKeys(top *topology, row *commandRow, i int, r *Request) *split {
	s := &split{at: i, how: row.split}
	step := row.specs[0].step
	index := make(map[[2]int]int)
	for k := 1; k < len(r.Args); k += step {
		node, slot := top.locateStored(r.Args[k])
		at, seen := index[[2]int{node, int(slot)}]
		if !seen {
			at = len(s.parts)
			index[[2]int{node, int(slot)}] = at
			s.parts = append(s.parts, splitPart{node: node, req: Request{
				Op: OpForward, RESP3: r.RESP3, Args: [][]byte{r.Args[0]},
			}})
		}
		part := &s.parts[at].req
		part.Args = append(part.Args, r.Args[k:min(k+step, len(r.Args))]...)
		if s.how == mergeArrays {
			s.order = append(s.order, at)
		}
	}
	return s
}

// spread sends request i to all nodes.
func spread(top *topology, row *commandRow, i int, r *Request) *split {
	s := &split{at: i, how: row.spread, parts: make([]splitPart, len(top.nodes))}
	for n := range s.parts {
		s.parts[n] = splitPart{node: n, req: Request{Op: OpForward, RESP3: r.RESP3, Args: r.Args}}
	}
	return s
}

// merge makes one result of the parts'. The first part that failed speaks for all:
// the others have run all the same.
func (s *split) merge(to *Result) {
	for i := range s.parts {
		res := &s.parts[i].res
		if res.Err != nil {
			to.Err = res.Err
			return
		}
		if res.Raw[0] == '-' || res.Raw[0] == '!' {
			to.Raw = res.Raw
			return
		}
	}
	var err error
	switch s.how {
	case mergeSum:
		to.Raw, err = s.sum()
	case mergeArrays:
		to.Raw, err = s.arrays()
	default:
		to.Raw = s.parts[0].res.Raw
	}
	to.Err = err
}

var errMerge = errors.New("ERR the nodes' replies cannot be made into one")

func (s *split) sum() ([]byte, error) {
	total := int64(0)
	for i := range s.parts {
		line, ok := bytes.CutSuffix(s.parts[i].res.Raw, []byte("\r\n"))
		if !ok || line[0] != ':' {
			return nil, errMerge
		}
		n, err := strconv.ParseInt(string(line[1:]), 10, 64)
		if err != nil {
			return nil, errMerge
		}
		total += n
	}
	return append(strconv.AppendInt([]byte{':'}, total, 10), "\r\n"...), nil
}

// arrays puts the elements of the parts' arrays into the order of the keys.
func (s *split) arrays() ([]byte, error) {
	rest, size := make([][]byte, len(s.parts)), 32
	for i := range s.parts {
		raw := s.parts[i].res.Raw
		if raw[0] != '*' {
			return nil, errMerge
		}
		size += len(raw)
		rest[i] = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	out := make([]byte, 0, size)
	out = strconv.AppendInt(append(out, '*'), int64(len(s.order)), 10)
	out = append(out, "\r\n"...)
	for _, part := range s.order {
		n := elementSize(rest[part])
		if n == 0 {
			return nil, errMerge
		}
		out, rest[part] = append(out, rest[part][:n]...), rest[part][n:]
	}
	return out, nil
}

// elementSize returns the size of the string, null or number that b begins with, 0
// if it is none.
func elementSize(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if n < len("_\r\n") || b[0] == '*' || b[0] == '%' || b[0] == '~' {
		return 0
	}
	if b[0] != '$' || b[1] == '-' {
		return n
	}
	length, err := strconv.Atoi(string(b[1 : n-2]))
	if n += length + 2; err != nil || n > len(b) {
		return 0
	}
	return n
}
