package redis

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// item is something that waits for its node. Its task says by its type what the node is asked for. The other fields are
// common to all items.
type item struct {
	backlog.Item // At is by the engine's own clock

	task  task
	req   *engine.Request // the first one of a multi-key request; nil for a call of package split
	res   *engine.Result  // that of req
	wait  *waiter         // notified when the item is answered; nil if nobody waits for it
	shard int             // the shard of the key that is asked; 0 is the home
	index int             // of req in the pipeline

	open         bool // left to package split
	maybeApplied bool // the node may have run it without saying so

	// misrouted is set in a Redis Cluster: the item has not run, and is sent again in a call about its key only. A node
	// without the key then names the one that has it.
	misrouted bool
}

// name returns the name of the key that the node is asked about.
func (it *item) name() []byte { return it.task.name(it) }

// task is what an item asks its node for: entry, withID, inspect, *multiKey or *splitCall; or nothing any more: sentOn.
type task interface {
	// name returns the name of the item's key.
	name(it *item) []byte

	// work returns how long a node works for the item at most.
	work(it *item) time.Duration

	// fail answers an item that the node of the queue could not, unless it was left to package split.
	fail(p *parts, q *queue, it *item, why string)

	// wrote reports whether the node has written something for an item that has its answer, and the answer says so.
	wrote(it *item) bool
}

// ownCall is a task that has a call of its own, or shares one only with equal tasks, see withID.
type ownCall interface {
	task

	// call returns the function that answers items, its arguments, and the keys as they are stored.
	call(items []item) (f *lua.Function, args [][]byte, stored []string)

	// refused takes the items of c out of the batch, to be submitted again in another way, if the error says that this
	// helps.
	refused(b *batch, c *ownCommand, err error) bool

	// usesIDs reports whether the function uses the ids of the key.
	usesIDs() bool

	// apply sets the results of the items of c. If the reply is malformed, it returns an error.
	apply(b *batch, c *ownCommand, reply string) error
}

// entry is a decision without an id, or an RL.RESET. It shares a call of rl_decide or rl_reset with others.
type entry struct{ request }

// sentOn takes the place of an item that was moved to another batch, which answers it.
type sentOn struct{ request }

func (sentOn) fail(*parts, *queue, *item, string) {}

func (sentOn) wrote(*item) bool { return false }

// request is what is common to the tasks that ask for one request.
type request struct{}

func (request) name(it *item) []byte { return it.req.Key }

func (request) usesIDs() bool { return true }

func (request) work(it *item) time.Duration {
	if it.req.Op == engine.OpReset {
		return wire.ResetWork
	}
	return wire.DecisionWork(it.req)
}

// fail implements task. If a shard of a split key is known not to have decided the request, the key's home decides it;
// otherwise its FAIL policy answers.
func (request) fail(p *parts, q *queue, it *item, why string) {
	if it.shard > 0 && !it.maybeApplied && p.elapsed()-it.At < backlog.Patience(p.fleet.Timeout()) {
		it.leave(nil)
		return
	}
	p.answerByFail(q, it.req, it.res, why, it.maybeApplied)
}

// wrote implements task. What was left to package split is not answered yet.
func (request) wrote(it *item) bool { return !it.open && it.res.Wrote(it.req.Cost) }

// stored returns the item's key as it is stored.
func (it *item) stored() string { return string(shard.AppendStoredKey(nil, it.name(), it.shard)) }
