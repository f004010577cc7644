package forward

import (
	"bytes"
	"errors"
	"strconv"
)

// merge is the way to merge the replies of several nodes.
type merge uint8

const (
	mergeNone   merge = iota // the command cannot be fanned out
	mergeSum                 // add up the integers
	mergeOK                  // all replies are the same status
	mergeArrays              // merge arrays with one element per key, in the order of the keys
)

// pieceKeys is the most keys of a piece of a fan-out.
const pieceKeys = 1024

// fanout is a command that goes to several nodes. Its branches run independently: other
// clients' commands may run between them. One with many keys goes piece by piece, so that
// it takes little memory and no node is busy with it for long.
type fanout struct {
	at       int // the command's index in its pipeline
	how      merge
	command  *Command
	step     int // distance between keys; 0: the command goes to all nodes
	next     int // the first argument that is not in a piece yet
	branches []branch
	order    []int // for mergeArrays: the index in branches of each key of the piece

	total    int64    // for mergeSum: of the pieces so far
	keys     int      // for mergeArrays: of the pieces so far
	elements [][]byte // for mergeArrays: of the pieces so far, in the order of the keys
}

// branch is the command to one node. In a cluster, its keys are in one slot.
type branch struct {
	node    int // index in the topology
	command Command
	result  Result
}

// byKeys fans command i out to the nodes of its keys. The keys go from the first argument
// to the last, each followed by the arguments that belong to it.
func byKeys(row *commandRow, i int, c *Command) *fanout {
	return &fanout{at: i, how: row.mergeKeys, command: c, step: row.specs[0].step, next: 1}
}

// piece makes the branches of the next piece, of at most that many keys.
func (o *fanout) piece(v *view, keys int) {
	args := o.command.Args
	o.branches, o.order = nil, o.order[:0]
	index := make(map[[2]int]int)
	for ; keys > 0 && o.next < len(args); keys-- {
		node, slot := v.LocateStored(args[o.next])
		at, seen := index[[2]int{node, int(slot)}]
		if !seen {
			at = len(o.branches)
			index[[2]int{node, int(slot)}] = at
			o.branches = append(o.branches, branch{node: node, command: Command{RESP3: o.command.RESP3, Args: [][]byte{args[0]}}})
		}
		to, end := &o.branches[at].command, min(o.next+o.step, len(args))
		to.Args = append(to.Args, args[o.next:end]...)
		if o.next = end; o.how == mergeArrays {
			o.order = append(o.order, at)
		}
	}
}

// toAll fans command i out to all nodes.
func toAll(v *view, row *commandRow, i int, c *Command) *fanout {
	o := &fanout{at: i, how: row.mergeNodes, command: c, next: len(c.Args), branches: make([]branch, len(v.Nodes))}
	for n := range o.branches {
		o.branches[n] = branch{node: n, command: *c, result: Result{Name: row.name}}
	}
	return o
}

// merge merges the results of the branches with those of earlier pieces. It returns true
// if another piece follows, and sets the result otherwise. If branches failed, the first
// of them is the result, although others may have run; no other piece follows.
func (o *fanout) merge(to *Result) (more bool) {
	for i := range o.branches {
		res := &o.branches[i].result
		if res.Err != nil {
			to.Err = res.Err
			return false
		}
		if res.Raw[0] == '-' || res.Raw[0] == '!' {
			to.Raw = res.Raw
			return false
		}
	}
	switch o.how {
	case mergeSum:
		to.Err = o.sum()
	case mergeArrays:
		to.Err = o.arrays()
	}
	switch {
	case to.Err != nil:
		return false
	case o.command != nil && o.next < len(o.command.Args):
		return true
	case o.how == mergeSum:
		to.Raw = line(':', o.total)
	case o.how == mergeArrays:
		to.Raw, to.Rest = line('*', int64(o.keys)), o.elements
	default:
		to.Raw = o.branches[0].result.Raw
	}
	return false
}

// line returns a line of a reply.
func line(kind byte, n int64) []byte {
	return append(strconv.AppendInt([]byte{kind}, n, 10), "\r\n"...)
}

var errMerge = errors.New("ERR the replies of the nodes cannot be merged")

// sum adds up the branches' integers.
func (o *fanout) sum() error {
	for i := range o.branches {
		line, ok := bytes.CutSuffix(o.branches[i].result.Raw, []byte("\r\n"))
		if !ok || len(line) == 0 || line[0] != ':' {
			return errMerge
		}
		n, err := strconv.ParseInt(string(line[1:]), 10, 64)
		if err != nil {
			return errMerge
		}
		o.total += n
	}
	return nil
}

// arrays merges the branches' arrays, with the elements in the order of the keys. It does
// not copy them.
func (o *fanout) arrays() error {
	rest := make([][]byte, len(o.branches))
	for i := range o.branches {
		raw := o.branches[i].result.Raw
		if raw[0] != '*' {
			return errMerge
		}
		rest[i] = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	for _, at := range o.order {
		n := elementSize(rest[at])
		if n == 0 {
			return errMerge
		}
		o.elements, rest[at] = append(o.elements, rest[at][:n:n]), rest[at][n:]
	}
	o.keys += len(o.order)
	return nil
}

// elementSize returns the size of the string, null or number at the start of b, or 0 if
// there is none.
func elementSize(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if n < len("_\r\n") || b[0] == '*' || b[0] == '%' || b[0] == '~' {
		return 0
	}
	if b[0] != '$' || b[1] == '-' {
		return n
	}
	length, err := strconv.Atoi(string(b[1 : n-2]))
	if err != nil || length > len(b) || n+length+2 > len(b) {
		return 0
	}
	return n + length + 2
}
