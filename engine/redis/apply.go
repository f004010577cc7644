package redis

import (
	"cmp"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/library"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// collect sets the results of all commands. Unless final, it leaves out the commands that failed because the node lacks
// the library, and reports whether there were any.
func (b *batch) collect(final bool) (missing bool) {
	failed := false
	b.missing, b.loadErr = false, nil
	for _, cmd := range b.cmds {
		reply, err := cmd.Result()
		if err != nil && reply == "" { // a reply that arrived before the rest of the pipeline failed counts
			if err = cmd.notRun(b, err, final); err == nil {
				continue
			}
		} else if err = cmd.apply(b, reply); err != nil {
			err = malformed{err}
		}
		if err != nil {
			failed = b.fail(cmd, err, failed)
			continue
		}
		b.q.traffic.LastReply.Store(int64(b.ended))
		if b.notReplicated != nil {
			b.failWrites(cmd)
			continue
		}
		// A full node still runs what admits nothing.
		if (b.q.Refused.Load() != nil || b.q.log.Open.Load()) && cmd.first(b).decides() {
			b.q.Refused.Store(nil)
			b.q.log.End()
			b.local.Wake()
		}
	}
	if !failed {
		b.q.Record(nil)
	}
	return b.missing
}

// fail answers the items of a command that failed. failed reports whether the health of the node has been told, and so
// does the result of fail.
func (b *batch) fail(cmd command, err error, failed bool) bool {
	b.q.traffic.Failure(err)
	if backend.CutOff(err) {
		b.q.Doubt()
	}
	if it := cmd.first(b); it != nil && backend.IsReply(err) && wire.KeyError(err.Error()) == nil {
		b.q.noteRefused(it.name(), err)
	}
	if !failed && backend.Failed(err) {
		failed = true
		b.q.Record(err) // first: how FAIL policies answer depends on the node's health
	}
	maybe, why := backend.MaybeApplied(err), lua.Locate(backend.Reason(err))
	cmd.each(b, func(j int) { b.failItem(j, why, maybe) })
	return failed
}

// failWrites answers the items of a command for which the node has written what too few of its replicas have.
func (b *batch) failWrites(cmd command) {
	cmd.each(b, func(j int) {
		if it := &b.items[j]; it.task.wrote(it) {
			b.q.noteRefused(it.name(), b.notReplicated)
			b.q.Doubt()
			if it.req != nil { // else it is no request of a client
				b.unreplicated.Add(1)
			}
			b.failItem(j, b.notReplicated.Error(), true)
		}
	})
}

// failItem answers an item that failed. maybe reports whether the node may have run it nevertheless.
func (b *batch) failItem(j int, why string, maybe bool) {
	b.items[j].maybeApplied = maybe
	b.q.fail(&b.items[j], why)
}

// noteRefused notes that the node refused, with the error err, to run a function for a key, such as for lack of memory.
func (q *queue) noteRefused(key []byte, err error) {
	if q.Refused.Swap(&backend.RefusedCall{Key: string(key), Why: lua.Locate(err.Error())}) == nil {
		q.parts.local.Wake()
	}
}

// notRun is command.notRun for a call.
func (b *batch) notRun(cmd command, err error, final bool) error {
	unknown := library.Missing(err)
	if unknown && !b.missing { // all such commands fail or none does: rebuild sends all of them again
		if b.loadErr = cmp.Or(b.loadErr, b.q.loader.RecentFailure(b.elapsed())); b.loadErr != nil {
			return b.loadErr
		}
	}
	switch {
	case unknown && !final:
		b.q.loader.NoteMissing(err)
		b.missing = true
	case b.redirect(cmd, err) || cmd.refused(b, err):
	case backend.IsReply(err):
		return b.q.loader.NoteCall(err, b.elapsed())
	default:
		return err
	}
	return nil
}

// malformed is the error of a reply that cannot be decoded.
type malformed struct{ error }

func (malformed) Is(target error) bool { return target == backend.ErrMalformed }

// apply implements command.
func (c *entriesCommand) apply(b *batch, reply string) error {
	answers, clock, err := c.entries.Decode(reply)
	if err != nil {
		return err
	}
	for at := range answers {
		b.applyAnswer(c.entries, at, &answers[at], clock)
	}
	return nil
}

// applyAnswer sets the results of one entry's items. It remembers a denial, and passes what the answer reveals about
// splits to package split.
func (b *batch) applyAnswer(c *entries, at int, a *wire.Answer, clock int64) {
	if a.Status == wire.Failed {
		if wire.NotHere(a.Failure) && b.q.clustered && !c.misrouted {
			b.eachOf(c, at, b.misroute)
			return
		}
		b.q.traffic.FailedEntry(a.MaybeApplied)
		why := lua.Locate(a.Failure)
		b.eachOf(c, at, func(j int) { b.failItem(j, why, a.MaybeApplied) })
		return
	}
	first := &b.items[c.first[at]]
	r := first.req
	told := a.Status != wire.AtNode || a.Recalled || b.splits.PossiblySplit.Load() > 0
	waits := (told || a.Rate >= min(b.splits.HotRate.Load(), b.advances.Rate.Load())) && b.learn(first, r, a)
	if a.Refusal != nil {
		a.Refusal.Shard = first.shard
	}
	// What a shard did not grant, and what the home cannot decide alone or yet, stays open.
	decided := a.Requests
	switch {
	case waits:
		decided = a.Granted * min(r.Cost, 1) // none without cost
	case a.Undecided && r.ConcernsWholeKey():
		decided = 0
	case a.Undecided || a.Status == wire.AtShard:
		decided = a.Granted
	}
	first.res.Lapsed = a.Lapsed
	j := c.first[at]
	for n := range a.Requests {
		it := &b.items[j]
		switch {
		case n >= decided && waits:
			b.await(it)
		case n >= decided:
			it.leave(a.Refusal)
		case r.Op == engine.OpReset:
			it.res.Reset = a.Granted > 0
			b.denials.Forget(r.Key)
		default:
			it.res.Decision = r.Decide(a.Usages, clock, a.Granted, n)
		}
		j = b.next[j]
	}
	if last := &b.items[c.last[at]]; a.Granted < decided && !a.Held && b.remember && r.Op == engine.OpDecide {
		b.denials.Remember(last.req, last.res.Decision, b.sent.Milliseconds(), b.resets)
	}
}

// await takes an item out of the batch, to be submitted again when advances of its key may have come back.
func (b *batch) await(it *item) {
	b.recalled = append(b.recalled, *it)
	*it = item{task: sentOn{}}
}

// learn passes a node's answer to a request of an item to packages split and purse. It reports whether what is
// undecided is to be asked again, see await.
func (b *batch) learn(it *item, r *engine.Request, a *wire.Answer) (waits bool) {
	if a.Status != wire.AtNode || a.Rate >= b.splits.HotRate.Load() || b.splits.PossiblySplit.Load() > 0 {
		b.splits.Observe(r, it.shard, a)
	}
	return b.advances.Heard(r, a, b.ended-b.sent, b.ended-it.At, backlog.Patience(b.fleet.Timeout()))
}
