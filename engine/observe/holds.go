package observe

import (
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// ending is what became of a request to end or to renew a hold.
type ending uint8

const (
	ended       ending = iota // this request did it
	endedBefore               // an earlier equal request did it
	unknown                   // there is no such hold, or none any more; nothing was charged
	failed                    // the key's state could not be used
)

const endings = int(failed) + 1

// holds counts what becomes of holds.
type holds struct {
	settled  [endings]atomic.Int64 // requests of RL.SETTLE
	released [endings]atomic.Int64 // ids of RL.RELEASE; endedBefore is never
	renewed  [endings]atomic.Int64 // requests of RL.RENEW; endedBefore is never

	charged  atomic.Int64 // units that RL.SETTLE charged
	returned atomic.Int64 // units held that it did not charge
	overrun  atomic.Int64 // units that it charged beyond those held

	lapsedReservations atomic.Int64
	lapsedLeases       atomic.Int64
}

// observe counts the answer to a request that ends or renews a hold, or that took off some that had
// lapsed.
func (h *holds) observe(r *engine.Request, res *engine.Result) {
	if r.Kind == limit.Concurrency {
		h.lapsedLeases.Add(res.Lapsed)
	} else {
		h.lapsedReservations.Add(res.Lapsed)
	}
	s := &res.Settled
	switch {
	case r.Op == engine.OpRenew:
		h.renewed[endingOf(res, res.Renewed)].Add(1)
	case r.Op == engine.OpSettle && r.Kind == limit.Concurrency:
		h.released[endingOf(res, s.Settled)].Add(1)
	case r.Op == engine.OpSettle:
		e := endingOf(res, s.Settled)
		h.settled[e].Add(1)
		if e == ended {
			h.charged.Add(s.Charged)
			h.returned.Add(s.Returned)
			h.overrun.Add(s.Overrun)
		}
	}
}

// soughtTwice reports whether request i is an RL.SETTLE that sought its hold in vain, and another request of the same
// command, about the key's shadow or the key, counts for both: the one that found it, or else the second.
func soughtTwice(requests []engine.Request, results []engine.Result, i int) bool {
	r, next := &requests[i], i+1
	switch {
	case r.Op != engine.OpSettle || results[i].Settled.Settled || results[i].Err != nil:
		return false
	case r.Shadow:
		return results[i-1].Settled.Settled
	}
	return next < len(requests) && requests[next].Shadow && requests[next].Hold == r.Hold
}

// CountLapsedLeases counts leases of RL.ACQUIRE that had lapsed, and were removed by requests that are not observed.
func (o *Observer) CountLapsedLeases(n int64) { o.holds.lapsedLeases.Add(n) }

// endingOf returns what became of a request; done reports whether its hold has ended by it, or is renewed.
func endingOf(res *engine.Result, done bool) ending {
	switch {
	case res.Err != nil:
		return failed
	case !done:
		return unknown
	case res.Settled.Again:
		return endedBefore
	default:
		return ended
	}
}

// stats returns what INFO and metrics show of holds.
func (h *holds) stats() []engine.Stat {
	const (
		settles  = "Requests of RL.SETTLE, by result."
		releases = "Ids that RL.RELEASE was asked to release, by result."
		renewals = "Requests of RL.RENEW, by result."
	)
	row := func(name, metric, result, help string, n *atomic.Int64) engine.Stat {
		return engine.Stat{Name: name, Value: n.Load(), Metric: metric, Result: result, Help: help}
	}
	return []engine.Stat{
		row("settled", "settles_total", "settled", settles, &h.settled[ended]),
		row("settled_again", "settles_total", "repeated", settles, &h.settled[endedBefore]),
		row("settle_unknown", "settles_total", "unknown", settles, &h.settled[unknown]),
		row("settle_errors", "settles_total", "error", settles, &h.settled[failed]),
		row("settle_units_charged", "settle_charged_units_total", "", "Units that RL.SETTLE has charged, with those "+
			"of overruns.", &h.charged),
		row("settle_units_returned", "settle_returned_units_total", "", "Units held that RL.SETTLE has given back.",
			&h.returned),
		row("settle_units_overrun", "settle_overrun_units_total", "", "Units that RL.SETTLE has charged beyond those "+
			"held.", &h.overrun),
		row("reservations_lapsed", "reservations_lapsed_total", "",
			"Reservations that have lapsed. Each is counted when its key is next charged, if it ever is.",
			&h.lapsedReservations),
		row("slots_lapsed", "slot_leases_lapsed_total", "",
			"Leases of RL.ACQUIRE that have lapsed. Each is counted when its key is next charged, if it ever is.",
			&h.lapsedLeases),
		row("slots_released", "slot_releases_total", "released", releases, &h.released[ended]),
		row("slot_release_unknown", "slot_releases_total", "unknown", releases, &h.released[unknown]),
		row("slot_release_errors", "slot_releases_total", "error", releases, &h.released[failed]),
		row("slots_renewed", "slot_renewals_total", "renewed", renewals, &h.renewed[ended]),
		row("slot_renew_unknown", "slot_renewals_total", "unknown", renewals, &h.renewed[unknown]),
		row("slot_renew_errors", "slot_renewals_total", "error", renewals, &h.renewed[failed]),
	}
}
