package forward

import (
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine/backlog"
)

// Pipeline is the commands to be forwarded that arrived together on one connection. It can be reused after Reset and
// Begin. It is not safe for concurrent use.
type Pipeline struct {
	Commands []Command
	Results  []Result // by index in Commands

	memory  reservedMemory // memory of the results
	groups  [][]item       // items by 2*node + resp2 or resp3; node is an index in the topology
	fanouts []*fanout

	mu      sync.Mutex
	changed sync.Cond // signaled for Wait and Await; uses mu
	left    int       // items without a result; guarded by mu
	short   bool      // a reply waits until others are written; guarded by mu
	silent  []string  // names of nodes that did not answer in time, and are not waited for again; guarded by mu

	noTable error // why the nodes' table is missing; nil: it is there, or nobody has asked
}

// Command is one command. Its arguments alias the connection's buffer and must not change until Wait has returned.
type Command struct {
	Args  [][]byte // the name and its arguments; at least one word
	RESP3 bool     // the protocol of the reply
}

// Result is the reply to one command.
type Result struct {
	Name string   // of the command in the nodes' COMMAND, such as config|get; empty if they do not know it
	Raw  []byte   // the node's reply byte for byte; valid until the pipeline's Reset
	Rest [][]byte // what follows Raw, if the reply was merged
	Err  error    // set instead of Raw and Rest; its text is the error reply

	traits   trait // of the command
	done     bool  // the result is complete; guarded by the pipeline's mu
	reserved int64 // bytes that are reserved for Raw
}

// item is a command that waits for a node.
type item struct {
	backlog.Item
	command *Command
	result  *Result
	from    *Pipeline // nil if the item was redirected to another node's queue
	always  bool      // the command is sent to a node that is down, too, since it may end what keeps the node busy
}

// Begin begins another pipeline, possibly of another connection. It must be called before the first use of p for the
// pipeline, which may be a call of Describe, Join or ReadsLimits. Until the next Begin, Start and Wait may be called
// several times, and p waits only once for a node that does not answer.
func (p *Pipeline) Begin() { p.silent, p.noTable = p.silent[:0], nil }

// Add appends a command.
func (p *Pipeline) Add(args [][]byte, resp3 bool) {
	p.Commands = append(p.Commands, Command{Args: args, RESP3: resp3})
}

// Reset empties the pipeline and releases the memory of the replies. It keeps the pipeline's own memory unless a large
// pipeline has made it unusually large.
func (p *Pipeline) Reset() {
	const keep = 1024
	p.memory.release(p.memory.reserved.Load())
	if cap(p.Commands) > keep {
		p.Commands, p.Results, p.groups = nil, nil, nil
		return
	}
	clear(p.Commands)
	clear(p.Results)
	p.Commands, p.Results = p.Commands[:0], p.Results[:0]
}

// Release releases the memory of a result that Await has returned. The caller uses it no more.
func (p *Pipeline) Release(r *Result) {
	p.memory.release(r.reserved)
	*r = Result{Name: r.Name}
}

// forget makes a result incomplete again, for a command that is sent once more.
func (p *Pipeline) forget(r *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Raw, r.done = nil, false
}

func (p *Pipeline) grow() {
	if cap(p.Results) < len(p.Commands) {
		p.Results = make([]Result, len(p.Commands), cap(p.Commands))
		return
	}
	p.Results = p.Results[:len(p.Commands)]
	clear(p.Results)
}

// group adds an item to the group of a node.
func (p *Pipeline) group(v *lanes, node int, it item) {
	if n := 2 * len(v.Nodes); len(p.groups) < n {
		p.groups = append(p.groups, make([][]item, n-len(p.groups))...)
	}
	at := 2*node + resp2
	if it.command.RESP3 {
		at = 2*node + resp3
	}
	p.groups[at] = append(p.groups[at], it)
}

// groupAll adds the branches of a fan-out to the groups of their nodes. It returns their number.
func (p *Pipeline) groupAll(v *lanes, o *fanout) int {
	for i := range o.branches {
		b := &o.branches[i]
		p.group(v, b.node, item{command: &b.command, result: &b.result, from: p, always: o.row.whileBusy})
	}
	return len(o.branches)
}

// submit hands in the items in the pipeline's groups. now is the time of the forwarder's clock, without that which
// queries took.
func (p *Pipeline) submit(v *lanes, sent int, now time.Duration) {
	p.mu.Lock()
	p.left += sent
	p.mu.Unlock()
	for i, items := range p.groups {
		if len(items) == 0 {
			continue
		}
		for j := range items {
			items[j].At = now
		}
		v.Queues[i/2][i%2].submit(items)
		clear(items)
		p.groups[i] = items[:0]
	}
}

// answered marks items as answered. Their results must be set before: a caller of Wait or Await may use them at once.
func answered(items []item) {
	for len(items) > 0 {
		p, n := items[0].from, 1
		for n < len(items) && items[n].from == p {
			n++
		}
		if p != nil {
			p.answered(items[:n])
		}
		items = items[n:]
	}
}

func (p *Pipeline) answered(items []item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range items {
		items[i].result.done = true
	}
	if p.left -= len(items); p.left == 0 || p.short {
		p.changed.Signal()
	}
}

// wait waits until all commands have their results, or enough is true.
func (p *Pipeline) wait(enough func() bool) (all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.left > 0 && !enough() {
		p.changed.Wait()
	}
	return p.left == 0
}

// refuse sets the results of items to an error, and marks them as answered.
func refuse(items []item, err error) {
	for i := range items {
		if items[i].from != nil {
			items[i].result.Raw, items[i].result.Err = nil, err
		}
	}
	answered(items)
}
