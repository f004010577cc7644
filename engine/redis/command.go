package redis

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/shard"
)

// command is a command to a node. Its type says what it asks for: *service, *entriesCommand or *ownCommand.
type command interface {
	redis.Cmder
	Result() (string, error)

	// each calls do with the indices of the items that the command answers, in order.
	each(b *batch, do func(j int))

	// first returns the first of them, or nil if there is none.
	first(b *batch) *item

	// apply sets their results. If the reply is malformed, it returns an error.
	apply(b *batch, reply string) error

	// notRun handles the error of the command. It returns nil if the node has not run the command and nothing is left
	// to answer here: its items are sent again, redirected, or there are none. Otherwise it returns the error for the
	// items.
	notRun(b *batch, err error, final bool) error

	// refused takes the items out of the batch, to be submitted again in another way, if the error says that this
	// helps.
	refused(b *batch, err error) bool

	// again appends the command to the batch once more, unless it is a service.
	again(ctx context.Context, b *batch)
}

// sendOnce is what all of them are: a command that go-redis never sends twice.
type sendOnce struct{ *redis.StringCmd }

// NoRetry tells go-redis never to send the command again.
func (sendOnce) NoRetry() bool { return true }

// service is a command that answers no item: it loads the library, or is an ASKING.
type service struct{ sendOnce }

func (*service) each(*batch, func(int))        {}
func (*service) first(*batch) *item            { return nil }
func (*service) apply(*batch, string) error    { return nil }
func (*service) refused(*batch, error) bool    { return false }
func (*service) again(context.Context, *batch) {}

func (*service) notRun(b *batch, err error, _ bool) error {
	err = b.q.loader.NoteLoad(err, b.elapsed())
	b.loadErr = cmp.Or(err, b.loadErr)
	return err
}

// ownCommand is the call of consecutive items that have the same task, most often of one.
type ownCommand struct {
	sendOnce
	task  ownCall
	from  int // the index of the first item
	items int // their number
}

func (c *ownCommand) each(_ *batch, do func(j int)) {
	for j := c.from; j < c.from+c.items; j++ {
		do(j)
	}
}

func (c *ownCommand) first(b *batch) *item { return &b.items[c.from] }

func (c *ownCommand) again(ctx context.Context, b *batch) { b.addOwn(ctx, c.from, c.items) }

func (c *ownCommand) apply(b *batch, reply string) error { return c.task.apply(b, c, reply) }

func (c *ownCommand) notRun(b *batch, err error, final bool) error { return b.notRun(c, err, final) }

func (c *ownCommand) refused(b *batch, err error) bool { return c.task.refused(b, c, err) }

// addOwn appends the call that answers n items from item i on.
func (b *batch) addOwn(ctx context.Context, i, n int) {
	it := &b.items[i]
	task := it.task.(ownCall)
	f, args, stored := task.call(b.items[i : i+n])
	apart := b.q.clustered && len(stored) > 1
	if it.Asking {
		b.addService(ctx, "asking")
		if task.usesIDs() {
			// If the key had arrived without its ids, a request could be charged twice. With both keys declared, the
			// node refuses the call unless both have arrived.
			stored = append(stored, string(shard.AppendIDsKey(nil, it.name())))
		}
	}
	words := wire.KeysArgs(f, stored, b.clock, args, apart, b.q.loader.Scripted.Load())
	b.cmds = append(b.cmds, &ownCommand{sendOnce{redis.NewStringCmd(ctx, words...)}, task, i, n})
}
