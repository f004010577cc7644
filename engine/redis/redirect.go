package redis

import (
	"bytes"
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/engine/advance/purse"
)

// redirect takes the items of a command out of the batch, to be submitted to the node that the error names, if it is
// MOVED or ASK: such a command has not run. It reports whether it did.
func (b *batch) redirect(cmd command, err error) bool {
	to, asking := b.fleet.Redirected(b.q.Node, err, false)
	if to == nil {
		return false
	}
	lost, follows := false, false // follows: an earlier item of the same pipeline is about the same key
	cmd.each(b, func(j int) {
		it := &b.items[j]
		lost = lost || it.Lost()
		follows = follows || slices.ContainsFunc(b.misrouted, func(earlier item) bool {
			return it.wait != nil && it.wait == earlier.wait && bytes.Equal(it.name(), earlier.name())
		})
	})
	if lost {
		return false
	}
	if follows { // it must not arrive before an earlier item, which makes one hop more
		cmd.each(b, b.misroute)
		return true
	}
	if b.redirected == nil {
		b.redirected = make(map[*queue][]item)
	}
	other := b.queues.Of(to)
	cmd.each(b, func(j int) {
		b.items[j].Redirect(asking)
		b.redirected[other] = append(b.redirected[other], b.items[j])
		b.items[j] = item{task: sentOn{}}
	})
	return true
}

// misroute takes an item out of the batch, to be submitted again alone: the node then names the node that has its key.
func (b *batch) misroute(j int) {
	b.items[j].misrouted = true
	b.misrouted = append(b.misrouted, b.items[j])
	b.items[j] = item{task: sentOn{}}
}

// resubmit submits the redirected items, and the misrouted and the recalled ones again: to each node as one batch, so
// that a pipeline's requests about a key keep their order.
func (b *batch) resubmit() {
	for to, items := range b.redirected {
		delete(b.redirected, to) // the other queue owns these items now
		to.submitAgain(items)
	}
	b.q.submitAgain(b.misrouted)
	if again := b.recalled; len(again) > 0 {
		pause := purse.Pause(b.ended - again[0].At)
		time.AfterFunc(pause, func() { b.q.submitAgain(again) }) // Close waits for those who wait for the items
	}
	b.misrouted, b.recalled = nil, nil
}
