package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/shard"
)

// Ordinary commands go to the node that their keys lie on, and the node's reply
// comes back as it was sent. They have queues and connections of their own (lanes),
// so that a slow one holds up no decision that waits for the same node.
//
// What a command's keys are, and what kind of command it is, is what the nodes'
// COMMAND says (redis_forward_table.go, redis_forward_keys.go, redis_forward_rules.go).

// forwards are the ordinary commands of one pipeline, on their way.
type forwards struct {
	lanes  [][]item // by node, and by protocol: at 2*node for RESP2, after it for RESP3
	splits []*split
	busy   bool // there are any
}

// Errors of commands that no one node can answer.
var (
	errCrossSlot = errors.New("CROSSSLOT Keys in request don't hash to the same slot")
	errReserved  = errors.New("ERR keys that begin with rl: hold the state of rate limits, and are not written to")
)

// aim is where the keys of a command lie.
type aim struct {
	keys      int
	node      int
	slot      uint16
	scattered bool // in several places
	reserved  bool // it may write to rate limits' state
}

// add takes in one more key.
func (a *aim) add(t *topology, key []byte, writes bool) {
	node, slot := t.locateStored(key)
	if a.keys++; a.keys == 1 {
		a.node, a.slot = node, slot
	} else if node != a.node || slot != a.slot {
		a.scattered = true
	}
	a.reserved = a.reserved || writes && reserved(key)
}

// locateStored is locate for a key as nodes have it. On a list of nodes, keys with
// the same hash tag lie together, as in a cluster.
func (t *topology) locateStored(key []byte) (node int, slot uint16) {
	switch {
	case t.slots != nil:
		slot = uint16(shard.Slot(key)) // #nosec G115 -- 14 bits
		return int(t.slots[slot]), slot
	case len(t.nodes) == 1:
		return 0, 0
	}
	return t.place.Home(shard.Tag(key)), 0
}

// CheckForward tells whether a command would be refused without asking a node that
// has its keys, and why.
func (e *Redis) CheckForward(args [][]byte) error {
	top := e.topology.Load()
	row, err := e.command(args)
	if err != nil {
		return err
	}
	_, err = e.aim(top, row, args)
	return err
}

// aim finds out where a command goes. Its error is the command's reply.
func (e *Redis) aim(top *topology, row *commandRow, args [][]byte) (a aim, err error) {
	switch {
	case row.refusal != "":
		return a, errors.New(row.refusal)
	case row.option != "" && row.blocks(args):
		return a, errors.New("ERR '" + row.name + "' is not passed on with BLOCK: clients share the connections to nodes")
	case !row.fits(len(args)):
		return a, nil // any node says what is wrong
	}
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, unsure := s.place(args)
		if unsure && s.writes {
			a.reserved = a.reserved || slices.ContainsFunc(args, reserved)
		}
		for k := first; ok && k <= last; k += s.step {
			a.add(top, args[k], s.writes)
		}
	}
	if row.partial {
		if a, err = e.askKeys(top, args); err != nil {
			return a, err
		}
	}
	switch {
	case a.reserved:
		return a, errReserved
	case a.scattered && row.split == mergeNone:
		return a, errCrossSlot
	case a.scattered && (len(args)-1)%row.specs[0].step != 0:
		a.scattered = false // a key without what belongs to it: any node says so
	case a.keys == 0 && row.everywhere(args) && row.spread == mergeNone && len(top.nodes) > 1:
		return a, errors.New("ERR '" + row.name + "' without keys is not passed on: there are several nodes, and no key says which")
	}
	return a, nil
}

// askKeys asks a node for a command's keys and whether it writes to them.
func (e *Redis) askKeys(top *topology, args [][]byte) (a aim, err error) {
	question := append(make([]any, 0, len(args)+2), "command", "getkeysandflags")
	for i := range args {
		question = append(question, (*word)(&args[i]))
	}
	for _, n := range top.nodes {
		if n.client == nil || n.health.down() {
			err = &Unavailable{n.name, n.health.reason()}
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), e.config.ForwardTimeout)
		reply, failure := n.lanes.of(n, 2).client.Do(ctx, question...).Slice()
		cancel()
		if failure != nil && !isReply(failure) {
			n.noteForward(failure)
			err = &Unavailable{n.name, why(failure)}
			continue
		}
		for _, v := range reply { // none if it is not a proper command: its node says so
			key, _ := v.([]any)
			if len(key) != 2 {
				continue
			}
			name, _ := key[0].(string)
			flags := setOf(key[1])
			a.add(top, []byte(name), flags["RW"] || flags["OW"] || flags["RM"])
		}
		return a, nil
	}
	return a, err
}

// forward puts the command of request i among those for its node. It returns how
// many answers it waits for: none if it has its answer already.
func (e *Redis) forward(p *Pipeline, top *topology, i int, at time.Duration) int {
	r, res := &p.Requests[i], &p.Results[i]
	row, err := e.command(r.Args)
	var a aim
	if err == nil {
		a, err = e.aim(top, row, r.Args)
	}
	if err != nil {
		res.Err = err
		return 0
	}
	f := &p.forwards
	f.busy = true
	switch {
	case a.scattered:
		return f.add(top, splitKeys(top, row, i, r), p, at)
	case a.keys == 0 && row.spread != mergeNone && len(top.nodes) > 1:
		return f.add(top, spread(top, row, i, r), p, at)
	}
	f.send(top, a.node, item{req: r, res: res, wait: &p.wait, at: at})
	return 1
}

// add puts the parts of a command that goes to several nodes among those for them.
func (f *forwards) add(top *topology, s *split, p *Pipeline, at time.Duration) int {
	f.splits = append(f.splits, s)
	for i := range s.parts {
		part := &s.parts[i]
		f.send(top, part.node, item{req: &part.req, res: &part.res, wait: &p.wait, at: at})
	}
	return len(s.parts)
}

func (f *forwards) send(top *topology, node int, it item) {
	if len(f.lanes) < 2*len(top.nodes) {
		f.lanes = append(f.lanes, make([][]item, 2*len(top.nodes)-len(f.lanes))...)
	}
	lane := 2 * node
	if it.req.RESP3 {
		lane++
	}
	f.lanes[lane] = append(f.lanes[lane], it)
}

// submit hands the commands to their nodes.
func (f *forwards) submit(top *topology) {
	if !f.busy {
		return
	}
	for i, items := range f.lanes {
		if len(items) == 0 {
			continue
		}
		n := top.nodes[i/2]
		n.lanes.submit(n, items)
		clear(items)
		f.lanes[i] = items[:0]
	}
}

// merge gives commands that went to several nodes their one result.
func (f *forwards) merge(results []Result) {
	if !f.busy {
		return
	}
	for _, s := range f.splits {
		s.merge(&results[s.at])
	}
	clear(f.splits)
	f.splits, f.busy = f.splits[:0], false
}

// run returns where the run of requests ends that starts at from and may be asked at
// once. Ordinary commands and decisions are asked side by side, for they have no key
// in common; but a command that reads rate limits' state, or names no key and so may
// read anything, comes in its turn.
func (e *Redis) run(p *Pipeline, from int) int {
	if !p.mixed {
		return len(p.Requests)
	}
	decisions, readers := false, false
	for i := from; i < len(p.Requests); i++ {
		r := &p.Requests[i]
		if r.Op != OpForward {
			if readers {
				return i
			}
			decisions = true
			continue
		}
		if !e.readsState(r.Args) {
			continue
		}
		if decisions {
			return i
		}
		readers = true
	}
	return len(p.Requests)
}

// mixed tells whether there are both decisions and ordinary commands.
func mixed(requests []Request) bool {
	forwards := 0
	for i := range requests {
		if requests[i].Op == OpForward {
			forwards++
		}
	}
	return forwards > 0 && forwards < len(requests)
}

// readsState tells whether an ordinary command may read the state of rate limits.
func (e *Redis) readsState(args [][]byte) bool {
	row, err := e.command(args)
	if err != nil {
		return false
	}
	keys := 0
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, _ := s.place(args)
		for k := first; ok && k <= last; k += s.step {
			if keys++; reserved(args[k]) {
				return true
			}
		}
	}
	return keys == 0
}
