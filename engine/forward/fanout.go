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

// fanout is a command that goes to several nodes. Its branches run independently: other
// clients' commands may run between them.
type fanout struct {
	at       int // the command's index in its pipeline
	how      merge
	branches []branch
	order    []int // for mergeArrays: the index in branches of each key
}

// branch is the command to one node. In a cluster, its keys are in one slot.
type branch struct {
	node    int // index in the topology
	command Command
	result  Result
}

// byKeys fans command i out to the nodes of its keys. The keys go from the first argument
// to the last, each followed by the arguments that belong to it.
func byKeys(v *view, row *commandRow, i int, c *Command) *fanout {
	o := &fanout{at: i, how: row.mergeKeys}
	step := row.specs[0].step
	index := make(map[[2]int]int)
	for k := 1; k < len(c.Args); k += step {
		node, slot := v.LocateStored(c.Args[k])
		at, seen := index[[2]int{node, int(slot)}]
		if !seen {
			at = len(o.branches)
			index[[2]int{node, int(slot)}] = at
			o.branches = append(o.branches, branch{node: node, command: Command{RESP3: c.RESP3, Args: [][]byte{c.Args[0]}}})
		}
		to := &o.branches[at].command
		to.Args = append(to.Args, c.Args[k:min(k+step, len(c.Args))]...)
		if o.how == mergeArrays {
			o.order = append(o.order, at)
		}
	}
	return o
}

// toAll fans command i out to all nodes.
func toAll(v *view, row *commandRow, i int, c *Command) *fanout {
	o := &fanout{at: i, how: row.mergeNodes, branches: make([]branch, len(v.Nodes))}
	for n := range o.branches {
		o.branches[n] = branch{node: n, command: *c}
	}
	return o
}

// merge merges the results of the branches. If branches failed, the first of them is the
// result, although others may have run.
func (o *fanout) merge(to *Result) {
	for i := range o.branches {
		res := &o.branches[i].result
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
	switch o.how {
	case mergeSum:
		to.Raw, err = o.sum()
	case mergeArrays:
		to.Raw, err = o.arrays()
	default:
		to.Raw = o.branches[0].result.Raw
	}
	to.Err = err
}

var errMerge = errors.New("ERR the replies of the nodes cannot be merged")

func (o *fanout) sum() ([]byte, error) {
	total := int64(0)
	for i := range o.branches {
		line, ok := bytes.CutSuffix(o.branches[i].result.Raw, []byte("\r\n"))
		if !ok || len(line) == 0 || line[0] != ':' {
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

// arrays merges the branches' arrays, with the elements in the order of the keys.
func (o *fanout) arrays() ([]byte, error) {
	rest, size := make([][]byte, len(o.branches)), 32
	for i := range o.branches {
		raw := o.branches[i].result.Raw
		if raw[0] != '*' {
			return nil, errMerge
		}
		size += len(raw)
		rest[i] = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	out := make([]byte, 0, size)
	out = strconv.AppendInt(append(out, '*'), int64(len(o.order)), 10)
	out = append(out, "\r\n"...)
	for _, at := range o.order {
		n := elementSize(rest[at])
		if n == 0 {
			return nil, errMerge
		}
		out, rest[at] = append(out, rest[at][:n]...), rest[at][n:]
	}
	return out, nil
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
