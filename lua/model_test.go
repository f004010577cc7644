package lua_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	leases "github.com/rlproxy/rlproxy/shard/lease/model"
	"github.com/stretchr/testify/require"
)

// side is the state of one shard of the key by the specification; number 0 is the home.
type side struct {
	number  int
	key     string // stored
	clock   int64
	charges []charge
	shard   leases.Shard
	home    leases.Home
}

// charge is units of a state.
type charge struct {
	state lease.StateName
	model.Charge
}

func (s *side) newest() int64 {
	t := int64(0)
	for _, c := range s.charges {
		t = max(t, c.At/1000)
	}
	return t
}

// used returns the units of a state that count.
func (s *side) used(st lease.StateName, strict bool) int64 {
	of := model.Window{Kind: limit.Kind(st.Kind), Length: st.Window, Param: max(st.Buckets, 1)}
	var all []model.Charge
	for _, c := range s.charges {
		if c.state == st {
			all = append(all, c.Charge)
		}
	}
	manner := int64(0)
	if strict {
		manner = limit.Strict
	}
	return model.Used(of, all, max(s.clock, s.newest())*1000, manner)
}

func (s *side) admit(d *lease.Demand, granted int64) {
	if granted == 0 {
		return
	}
	now := max(s.clock, s.newest())
	for _, p := range d.Pairs {
		s.charges = append(s.charges, charge{p.StateName, model.Charge{At: now * 1000, Units: granted * d.Cost, Limit: p.Limit}})
	}
	s.charges = slices.DeleteFunc(s.charges, func(c charge) bool { return c.At/1000+3*c.state.Window < now })
}

// ended reports whether something was forgotten in the last ms: a node that has dropped
// it does not know it again when its clock steps back.
func (s *side) ended(ms int64) bool {
	back := *s
	back.clock -= ms
	for _, c := range s.charges {
		if s.used(c.state, true) != back.used(c.state, true) {
			return true
		}
	}
	return false
}

// differ runs the functions of split keys beside the specification, with the same requests, losses and repetitions, and
// requires equal answers.
type differ struct {
	t        *testing.T
	rng      *rand.Rand
	twins    *twins
	home     *side
	shards   []*side // from 1 on
	refusals []*wire.Refusal
	loans    []*lease.Loan
	recalls  []lease.Recall
	reports  []lease.Report
	granted  int64
	taken    int
	complete int // entries of which a shard granted all
	phase    phase
}

// phase says what is asked for: specs of any kind, or of one kind only, as most keys have
// them, or logs that are too long for an inline record.
type phase struct {
	kind limit.Kind // 0: any
	long bool
}

func (d *differ) run(f *lua.Function, s *side, args [][]byte) string {
	d.t.Helper()
	return d.twins.run(f, s.key, s.clock, texts(args)...)
}

func recent[T any](d *differ, from []T) (v T) {
	if len(from) > 0 {
		v = from[max(0, len(from)-1-d.rng.IntN(min(4, len(from))))]
	}
	return v
}

// request returns one of a few different requests, so that some of them find leases for the same spec.
func (d *differ) request() *engine.Request {
	r := request(limit.Slide, limit.Window{Limit: 100, Length: 500})
	switch {
	case d.phase.long:
		r.Windows[0] = limit.Window{Limit: 20_000, Length: 60_000}
		return r
	case d.phase.kind != 0:
		r.Kind = d.phase.kind
		return r
	}
	switch d.rng.IntN(8) {
	case 0:
		r.Windows[0].Limit = 60
	case 1:
		r.N, r.Windows[1] = 2, limit.Window{Limit: 300, Length: 2000}
	case 2, 3:
		r.Kind, r.Param, r.Manner = limit.Counter, 4, min(d.rng.Int64N(3), limit.Strict)
	case 4:
		r.Kind = limit.Fixed
	}
	r.Cost = []int64{1, 1, 1, 7, 40}[d.rng.IntN(5)]
	return r
}

// demand returns a request, and a number of them as a demand of the protocol.
func (d *differ) demand() (*engine.Request, *lease.Demand) {
	r := d.request()
	return r, &lease.Demand{Pairs: wire.Pairs(&r.Spec), Strict: r.Strict(), Cost: r.Cost, N: 1 + d.rng.Int64N(12)}
}

func (d *differ) askShard() {
	s := d.shards[d.rng.IntN(len(d.shards))]
	r, demand := d.demand()
	got := d.twins.decide(s.clock, r, s.number, demand.N)
	require.Equal(d.t, wire.AtShard, got.Status)
	var before []int64
	for _, p := range demand.Pairs {
		before = append(before, s.used(p.StateName, demand.Strict))
	}
	want, refusal := s.shard.Admit(rules, s.clock, s.newest(), demand, s.used)
	s.admit(demand, want)
	require.Equal(d.t, want, got.Granted)
	if want == demand.N {
		for i, p := range demand.Pairs { // the room at the shard and at home, before this entry
			require.Equal(d.t, p.Limit-(s.shard.Held[i]-before[i]+s.shard.Headroom[i]), got.Usages[i].Used)
		}
		d.complete++
	} else {
		require.Equal(d.t, refusal, got.Refusal.Refusal)
		got.Refusal.Shard = s.number
		d.refusals = append(d.refusals, got.Refusal)
	}
	d.granted += want
}

func (d *differ) askHome() {
	s := d.home
	r, demand := d.demand()
	q := &lease.HomeRequest{Demand: demand}
	refusal := recent(d, d.refusals)
	if refusal != nil && (d.rng.IntN(3) == 0 ||
		refusal.LeaseEnded && (len(refusal.Used) != r.N || refusal.Used[0].StateName != demand.Pairs[0].StateName)) {
		refusal = nil
	}
	if d.phase != (phase{}) && d.rng.IntN(2) == 0 { // as from a proxy that does not know of the split
		refusal = nil
	} else {
		for range d.rng.IntN(4) {
			if len(d.reports) > 0 {
				q.Reports = append(q.Reports, recent(d, d.reports))
			}
		}
		if d.rng.IntN(4) == 0 {
			q.Unreachable = append(q.Unreachable, 1+d.rng.IntN(len(d.shards)))
		}
	}
	if refusal != nil {
		q.Refusal = &refusal.Refusal
	}
	var own []int64
	for _, p := range demand.Pairs {
		own = append(own, s.used(p.StateName, demand.Strict))
	}
	if refusal == nil && len(q.Reports) == 0 && len(q.Unreachable) == 0 && d.rng.IntN(2) == 0 {
		got := d.twins.decide(s.clock, r, 0, demand.N)
		want := s.home.Decide(rules, s.clock, q, own)
		s.admit(demand, want.Granted)
		if got.Status == wire.AtHome {
			require.Equal(d.t, s.home.Shards, got.Shards)
			require.Equal(d.t, len(want.Recalls) > 0, got.Undecided)
		} else {
			require.Equal(d.t, wire.AtNode, got.Status)
		}
		require.Equal(d.t, want.Granted, got.Granted)
		return
	}
	reply := d.run(lua.Lend, s, wire.Args(wire.NewLend(&r.Spec, s.home.Shards, q)))
	want := s.home.Decide(rules, s.clock, q, own)
	s.admit(demand, want.Granted)
	got, err := wire.DecodeHomeReply(reply, &r.Spec, demand.N, q.Refusal)
	require.NoError(d.t, err, "%q", reply)
	require.Equal(d.t, want.Granted, got.Granted)
	require.Equal(d.t, want.Loan, got.Loan)
	byState := func(a, b lease.StateName) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Buckets, b.Buckets))
	}
	for _, list := range [][]lease.Recall{want.Recalls, got.Recalls} {
		for i := range list {
			slices.SortFunc(list[i].States, byState)
		}
	}
	require.Equal(d.t, want.Recalls, got.Recalls)
	for i, p := range demand.Pairs {
		require.Equal(d.t, s.used(p.StateName, demand.Strict), got.Tallies[i].Own)
	}
	if want.Loan != nil {
		d.loans = append(d.loans, want.Loan)
	}
	d.recalls = append(d.recalls, want.Recalls...)
	d.granted += want.Granted
}

func (d *differ) take() {
	loan := recent(d, d.loans)
	if loan == nil {
		return
	}
	s := d.shards[loan.Shard-1]
	var got wire.LoanTaken
	require.NoError(d.t, wire.Unpack(d.run(lua.Take, s, wire.Args(loan)), &got))
	took := s.shard.Take(rules, s.clock, loan)
	require.Equal(d.t, took, got.Taken)
	if took {
		s.shard.Held, s.shard.Headroom = slices.Clone(loan.Held), slices.Clone(loan.Headroom)
		d.taken++
	}
}

func (d *differ) recall() {
	if len(d.recalls) == 0 {
		return
	}
	to := recent(d, d.recalls)
	s := d.shards[to.Shard-1]
	order := wire.ShardOrder{Forget: d.rng.IntN(20) == 0, Recall: to}
	reply := d.run(lua.Recall, s, wire.Args(&order))
	report, err := wire.DecodeShardReport(reply, &to)
	require.NoError(d.t, err, "%q", reply)
	got := report.Report
	var want lease.Report
	if order.Forget {
		want = s.shard.Forget(rules, s.clock, &to)
		if !want.Stale {
			s.charges = nil
		}
		want.Strict, got.Used = to.Strict, nil
	} else {
		want = s.shard.Recall(s.clock, s.newest(), &to, s.used)
	}
	if got.Stale || got.Incarnation == 0 {
		got.Used = nil
	}
	require.Equal(d.t, want, got)
	d.reports = append(d.reports, want)
}

// reset completes a reset at the home, after some of the shards have forgotten their units.
func (d *differ) reset() {
	var forgot wire.Forgot
	var reports []lease.Report
	for _, r := range d.home.home.Recalls(rules, d.home.clock) {
		if d.rng.IntN(3) > 0 {
			reports = append(reports, lease.Report{Shard: r.Shard, Seq: r.Seq})
			forgot.Shards = append(forgot.Shards, wire.Forgetful{Shard: r.Shard, Seq: r.Seq})
		}
	}
	var got wire.Forgotten
	require.NoError(d.t, wire.Unpack(d.run(lua.Forget, d.home, wire.Args(&forgot)), &got))
	d.home.home.Reset(reports)
	d.home.charges = nil
	require.Equal(d.t, len(d.home.home.Lent) == 0, got.Forgotten)
}

func (d *differ) step() {
	for _, s := range append(d.shards, d.home) {
		passed := d.rng.Int64N(60)
		if s != d.home && d.rng.IntN(100) == 0 && !s.ended(100) {
			passed = -d.rng.Int64N(100)
		}
		if d.rng.IntN(200) == 0 {
			passed = d.rng.Int64N(4000)
		}
		s.clock += passed
		if s != d.home && s.shard.Incarnation > 0 && s.shard.Expires <= s.clock {
			d.twins.server.Do("DEL", s.key, twin(s.key))
			s.shard, s.charges = leases.Shard{}, nil
		}
	}
	switch d.rng.IntN(40) {
	case 0:
		if !d.phase.long { // a log grows long only without this
			d.reset()
		}
	case 1, 2, 3, 4, 5, 6, 7, 8:
		d.recall()
	default:
		if d.rng.IntN(2) == 0 {
			d.askShard()
			break
		}
		loans := len(d.loans)
		d.askHome()
		if len(d.loans) > loans || d.rng.IntN(4) == 0 {
			d.take()
		}
	}
}

// Over random histories, the functions of split keys give the same answers as the executable specification of the protocol.
// LUA_STEPS sets the number of steps, and LUA_SEED the history.
func TestSplitKeysFollowTheSpecification(t *testing.T) {
	t.Parallel()
	seed := uint64(rounds("LUA_SEED", 0))
	if seed == 0 {
		seed = 1 + rand.Uint64N(1<<32)
	}
	t.Logf("LUA_SEED=%d", seed)
	d := &differ{t: t, rng: rand.New(rand.NewPCG(seed, 0)), twins: startTwins(t)}
	for i := range 4 {
		s := &side{number: i, key: storedKey(d.request(), i), clock: base + d.rng.Int64N(10_000)}
		if i == 0 {
			s.home.Shards, d.home = 4, s
			continue
		}
		d.shards = append(d.shards, s)
	}
	steps := rounds("LUA_STEPS", 8000)
	for i := range steps {
		d.phase = phase{kind: []limit.Kind{0, 0, limit.Slide, limit.Counter, limit.Fixed}[i/400%5]}
		if i >= steps/5*4 {
			d.phase = phase{long: true}
		}
		d.step()
	}
	for _, status := range []wire.Status{wire.AtHome, wire.AtShard} {
		for _, kind := range additive {
			require.Greater(t, d.twins.count[path{true, status, kind, false}], steps/1000, "%v, status %d", kind, status)
		}
		slow, fast := d.twins.count[path{false, status, limit.Slide, true}], d.twins.count[path{true, status, limit.Slide, true}]
		require.Greater(t, slow+fast, steps/1000, "patched logs, status %d", status)
	}
	t.Logf("decisions: %v", d.twins.count)
	require.Greater(t, d.taken, steps/200)
	require.Greater(t, d.granted, int64(steps/4))
	require.Greater(t, d.complete, steps/40)
	t.Logf("%d granted, %d entries granted by shards, %d loans taken of %d, %d recalls", d.granted, d.complete, d.taken, len(d.loans), len(d.recalls))
}
