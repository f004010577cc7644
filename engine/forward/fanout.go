package forward

import (
	"bytes"
	"errors"
	"slices"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/forward/replies"
)

// merge is the way to merge the replies of several nodes.
type merge uint8

const (
	mergeNone    merge = iota // the command cannot be fanned out
	mergeSum                  // add up the integers
	mergeOK                   // all replies are the same status
	mergeArrays               // merge arrays with one element per key, in the order of the keys
	mergeLists                // concatenate arrays
	mergeEvery                // merge arrays of 0 and 1: 1 where all nodes reply 1; nodes that are away reply 0
	mergeReached              // the reply of a node, if all those that are not away succeed
	mergeOne                  // the reply of a node that succeeds
)

// pieceKeys is the most keys of a piece of a fan-out.
const pieceKeys = 1024

// fanout is a command that goes to several nodes. Its branches run independently: other clients' commands may run
// between them. One with many keys goes piece by piece, so that it takes little memory and no node is busy with it for
// long.
type fanout struct {
	at       int // the command's index in its pipeline
	how      merge
	row      *commandRow
	command  *Command
	step     int // distance between keys; 0: the command goes to all nodes
	next     int // the first argument that is not in a piece yet
	branches []branch
	order    []int // for mergeArrays: the index in branches of each key of the piece

	total int64         // for mergeSum: of the pieces so far
	array replies.Array // for arrays: of the pieces so far
}

// branch is the command to one node. In a cluster, its keys are in one slot.
type branch struct {
	node    int // index in the topology
	command Command
	result  Result
}

// byKeys fans command i out to the nodes of its keys. The keys go from the first argument to the last, each followed by
// the arguments that belong to it.
func byKeys(row *commandRow, i int, c *Command) *fanout {
	return &fanout{at: i, how: row.mergeKeys, row: row, command: c, step: row.specs[0].Step, next: 1}
}

// piece makes the branches of the next piece, of at most that many keys.
func (o *fanout) piece(v *lanes, keys int) {
	args := o.command.Args
	o.branches, o.order = nil, o.order[:0]
	index := make(map[[2]int]int)
	for ; keys > 0 && o.next < len(args); keys-- {
		node, slot := v.LocateStored(args[o.next])
		at, seen := index[[2]int{node, int(slot)}]
		if !seen {
			at = len(o.branches)
			index[[2]int{node, int(slot)}] = at
			c := Command{RESP3: o.command.RESP3, Args: [][]byte{args[0]}}
			o.branches = append(o.branches, branch{node: node, command: c})
		}
		to, end := &o.branches[at].command, min(o.next+o.step, len(args))
		to.Args = append(to.Args, args[o.next:end]...)
		if o.next = end; o.how == mergeArrays {
			o.order = append(o.order, at)
		}
	}
}

func toAll(v *lanes, row *commandRow, i int, c *Command) *fanout {
	o := &fanout{at: i, how: row.mergeNodes, row: row, command: c, next: len(c.Args)}
	o.branches = make([]branch, len(v.Nodes))
	for n := range o.branches {
		o.branches[n] = branch{node: n, command: *c, result: Result{Name: row.name, traits: row.traits}}
	}
	return o
}

// merge merges the results of the branches with those of earlier pieces. It returns true if another piece follows, and
// sets the result otherwise. If branches failed, the first of them is the result as a rule, although others may have
// run; no other piece follows.
func (o *fanout) merge(to *Result) (more bool) {
	first := slices.MinFunc(o.branches, func(a, b branch) int { return o.rank(&a.result) - o.rank(&b.result) }).result
	if first.failed() {
		to.Raw, to.Err = first.Raw, first.Err
		return false
	}
	raws := make([][]byte, len(o.branches))
	for i := range o.branches {
		raws[i] = o.branches[i].result.Raw
	}
	ok := true
	switch o.how {
	case mergeSum:
		ok = replies.Sum(&o.total, raws)
	case mergeArrays:
		ok = replies.ByKey(&o.array, raws, o.order)
	case mergeLists:
		ok = replies.Concat(&o.array, raws)
	case mergeEvery:
		away := slices.ContainsFunc(o.branches, func(b branch) bool { return b.result.away() })
		ok = replies.Every(&o.array, raws, away)
	}
	switch {
	case !ok:
		to.Err = errMerge
	case o.command != nil && o.next < len(o.command.Args):
		return true
	case o.how == mergeSum:
		to.Raw = replies.Line(':', o.total)
	case o.how == mergeArrays, o.how == mergeLists, o.how == mergeEvery:
		to.Raw, to.Rest = replies.Line('*', int64(o.array.Len)), o.array.Parts
	default:
		to.Raw = first.Raw
	}
	return false
}

var errMerge = errors.New("ERR the replies of the nodes cannot be merged")

// rank orders the results of branches: the first one of the least rank decides whether the command has failed.
func (o *fanout) rank(r *Result) int {
	switch {
	case o.how == mergeOne && bytes.HasPrefix(r.Raw, []byte("-NOTBUSY")): // this node has nothing to end
		return 2
	case o.how == mergeOne && !r.failed():
		return 0
	case (o.how == mergeReached || o.how == mergeEvery) && r.away():
		return 2
	case r.failed() && o.how != mergeOne:
		return 0
	}
	return 1
}

func (r *Result) failed() bool { return r.Err != nil || r.Raw[0] == '-' || r.Raw[0] == '!' }

// away reports whether the node did not answer, or with an error that says that it serves no request.
func (r *Result) away() bool {
	return r.Err != nil || r.Raw[0] == '-' && backend.Failed(backend.Reply(r.Raw[1:]))
}
