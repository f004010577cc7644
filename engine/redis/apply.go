package redis

import (
	"cmp"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// collect sets the results of all commands. Unless final, it leaves out the commands that
// failed because the node lacks the library, and reports whether there were any.
func (b *batch) collect(final bool) (missing bool) {
	failed := false
	b.missing, b.loadErr = false, nil
	for _, cmd := range b.cmds {
		reply, err := cmd.Result()
		switch {
		case err != nil && reply == "": // a reply that arrived before the rest of the pipeline failed counts
			if err = b.notRun(cmd, err, final); err == nil {
				continue
			}
		case cmd.entries != nil:
			err = b.applyEntries(cmd.entries, reply)
		case !cmd.service:
			if err = b.applySingle(cmd, reply); err != nil {
				err = malformed{err}
			}
		}
		if err != nil {
			b.q.traffic.countFailure(err)
			if backend.CutOff(err) {
				b.q.Doubt()
			}
			if !cmd.service && backend.IsReply(err) && wire.KeyError(err.Error()) == nil {
				b.q.noteRefused(b.items[cmd.first()].name(), err)
			}
			if !failed && backend.Failed(err) {
				failed = true
				b.q.Record(err) // first: how policies answer depends on the node's health
			}
			b.failCommand(cmd, err)
		} else if !cmd.service {
			b.q.traffic.lastReply.Store(int64(b.ended))
			if b.q.refused.Load() != nil {
				b.q.noteAccepted(b.items[cmd.first()].req)
			}
		}
	}
	if !failed {
		b.q.Record(nil)
	}
	return b.missing
}

// notRun handles the error of a command. It returns nil if the node has not run the
// command and nothing is left to answer here: its items are sent again, redirected, or
// there are none. Otherwise it returns the error for the items.
func (b *batch) notRun(cmd *command, err error, final bool) error {
	unknown := !cmd.service && wire.UnknownFunction(err)
	if unknown && !b.missing { // all such commands fail or none does: rebuild sends all of them again
		if b.loadErr = cmp.Or(b.loadErr, b.q.recentLoadFailure()); b.loadErr != nil {
			return b.loadErr
		}
	}
	switch {
	case cmd.service && wire.AlreadyLoaded(err):
	case cmd.service && wire.RefusesFunctions(err):
		b.q.scripted.Store(true)
	case cmd.service:
		b.loadErr = b.q.noteLoadFailure(err, true)
		return err
	case unknown && !final:
		if wire.RefusesFunctions(err) {
			b.q.scripted.Store(true)
		} else if strings.HasPrefix(err.Error(), "NOSCRIPT") {
			b.q.scripted.Store(false) // a node that has lost the script may accept functions by now
		}
		b.missing = true
	case b.redirect(cmd, err) || b.misroute(cmd, err) || b.readOnly(cmd, err):
	case backend.IsReply(err):
		return b.q.noteLoadFailure(err, false)
	default:
		return err
	}
	return nil
}

// failCommand answers the items of a command that failed.
func (b *batch) failCommand(cmd *command, err error) {
	maybe, why := backend.MaybeApplied(err), lua.Locate(backend.Reason(err))
	b.each(cmd, func(j int) {
		b.items[j].maybeApplied = maybe
		b.q.fail(&b.items[j], why)
	})
}

// malformed is the error of a reply that cannot be decoded.
type malformed struct{ error }

func (malformed) Is(target error) bool { return target == backend.ErrMalformed }

// applyEntries sets the results of a call of entries.
func (b *batch) applyEntries(c *entries, reply string) error {
	answers, clock, err := c.Decode(reply)
	if err != nil {
		return malformed{err}
	}
	for at := range answers {
		b.applyAnswer(c, at, &answers[at], clock)
	}
	return nil
}

// applyAnswer sets the results of one entry's items. It remembers a denial, and passes
// what the answer reveals about splits to package split.
func (b *batch) applyAnswer(c *entries, at int, a *wire.Answer, clock int64) {
	if a.Status == wire.Failed {
		if wire.NotHere(a.Failure) && b.q.clustered && !c.misrouted {
			b.eachOf(c, at, b.misrouteItem)
			return
		}
		b.q.traffic.countFailedEntry(a.MaybeApplied)
		why := lua.Locate(a.Failure)
		b.eachOf(c, at, func(j int) {
			b.items[j].maybeApplied = a.MaybeApplied
			b.q.fail(&b.items[j], why)
		})
		return
	}
	e, first := b.q.engine, &b.items[c.first[at]]
	r := first.req
	if a.Status != wire.AtNode || a.Rate >= e.hotRate.Load() || e.splits.PossiblySplit.Load() > 0 { // as in learn, without a call
		e.splits.Observe(r, first.shard, a)
	}
	if a.Refusal != nil {
		a.Refusal.Shard = first.shard
	}
	// What a shard did not grant, and what the home cannot decide alone, stays open.
	decided := a.Requests
	switch {
	case a.Undecided && r.ConcernsWholeKey():
		decided = 0
	case a.Undecided || a.Status == wire.AtShard:
		decided = a.Granted
	}
	j := c.first[at]
	for n := range a.Requests {
		it := &b.items[j]
		switch {
		case n >= decided:
			e.leave(it, split.Request{Refusal: a.Refusal})
		case r.Op == engine.OpReset:
			it.res.Reset = a.Granted > 0
			e.denials.Forget(r.Key)
		default:
			it.res.Decision = r.Decide(a.Usages, clock, a.Granted, n)
			if n == 0 {
				it.res.Lapsed = a.Lapsed
			}
		}
		j = b.next[j]
	}
	if last := &b.items[c.last[at]]; a.Granted < decided && !a.Held && !e.config.AskAlways && r.Op == engine.OpDecide {
		e.denials.Remember(last.req, last.res.Decision, b.sent.Milliseconds(), b.resets)
	}
}
