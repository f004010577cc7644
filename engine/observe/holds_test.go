package observe

import (
	"errors"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// holdStats returns what INFO shows of holds, without what is 0. Two rows of one name would be lost.
func (o *Observer) holdStats(t *testing.T) map[string]int64 {
	t.Helper()
	all, rows := map[string]int64{}, map[string]bool{}
	for _, s := range o.Stats() {
		require.False(t, rows[s.Name], s.Name)
		rows[s.Name] = true
		if s.Value != 0 {
			all[s.Name] = s.Value
		}
	}
	return all
}

func TestWhatBecomesOfHoldsIsCounted(t *testing.T) {
	t.Parallel()
	settled := engine.Settlement{Settled: true, Charged: 120, Overrun: 20}
	again := settled
	again.Again = true
	away := errors.New("UNAVAILABLE")
	reserve := engine.Request{Hold: &engine.Hold{TTL: 1000}, Spec: limit.Spec{Kind: limit.Slide}}
	acquire := engine.Request{Hold: &engine.Hold{TTL: 1000}, Spec: limit.Spec{Kind: limit.Concurrency}}
	settle, release, renew := reserve, acquire, acquire
	settle.Op, settle.Kind, release.Op, renew.Op = engine.OpSettle, 0, engine.OpSettle, engine.OpRenew
	p := &engine.Pipeline{}
	show := func(r engine.Request, results ...engine.Result) {
		for _, res := range results {
			p.Requests, p.Results = append(p.Requests, r), append(p.Results, res)
		}
	}
	show(reserve, allowed, engine.Result{Decision: allowed.Decision, Again: true}, engine.Result{Lapsed: 3})
	show(settle, engine.Result{Settled: settled}, engine.Result{Settled: again}, engine.Result{Settled: again}, engine.Result{Lapsed: 4},
		engine.Result{Settled: engine.Settlement{Settled: true, Charged: 30, Returned: 70}}, engine.Result{Err: away})
	show(acquire, allowed, engine.Result{Lapsed: 1})
	show(release, engine.Result{Settled: engine.Settlement{Settled: true, Returned: 1}}, engine.Result{Lapsed: 5}, engine.Result{Err: away})
	show(renew, engine.Result{Renewed: true}, engine.Result{Renewed: true}, engine.Result{}, engine.Result{Err: away})
	o := New(Config{})
	o.Observe(p, time.Now(), time.Millisecond, Sender{})
	require.Equal(t, map[string]int64{
		"repeated": 1,
		"settled":  2, "settled_again": 2, "settle_unknown": 1, "settle_errors": 1,
		"settle_units_charged": 150, "settle_units_returned": 70, "settle_units_overrun": 20, "reservations_lapsed": 7,
		"slots_released": 1, "slot_release_unknown": 1, "slot_release_errors": 1, "slots_lapsed": 6,
		"slots_renewed": 2, "slot_renew_unknown": 1, "slot_renew_errors": 1,
	}, o.holdStats(t))
	require.EqualValues(t, 3, o.Durations(Reserve).Snapshot().Count, "ending a hold is no decision")
	require.EqualValues(t, 2, o.Durations(Acquire).Snapshot().Count)
}

// An RL.SETTLE that seeks its hold for a key and for the key's shadow counts once.
func TestASettleThatSeeksTwiceCountsOnce(t *testing.T) {
	o := New(Config{})
	for _, found := range [][2]bool{{true, false}, {false, true}, {false, false}} {
		var p engine.Pipeline
		h := new(engine.Hold)
		for _, shadow := range []bool{false, true} {
			r := p.Add()
			r.Op, r.Hold, r.Shadow = engine.OpSettle, h, shadow
		}
		p.Grow()
		for i := range found {
			p.Results[i].Settled.Settled = found[i]
		}
		o.Observe(&p, o.busiest.started, 0, Sender{})
	}
	got := map[string]int64{}
	for _, s := range o.holds.stats() {
		got[s.Name] = s.Value
	}
	require.EqualValues(t, 2, got["settled"])
	require.EqualValues(t, 1, got["settle_unknown"])
}
