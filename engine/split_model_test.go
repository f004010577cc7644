package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// side is a node of the differential test: what it keeps in Go, and the stored key of
// what it keeps in Redis.
type side struct {
	key    string
	clock  int64
	charge []charged
	part   shard.Part
	home   shard.Home
}

// charged is units of a state.
type charged struct {
	state shard.State
	at, n int64
}

func (s *side) newest() int64 {
	t := int64(0)
	for _, c := range s.charge {
		t = max(t, c.at)
	}
	return t
}

func (s *side) used(st shard.State, strict bool) int64 {
	now, sum := max(s.clock, s.newest()), int64(0)
	if st.Buckets == 0 {
		for _, c := range s.charge {
			if c.state == st && (Op(st.Kind) == OpSlide && now <= c.at+st.Window || Op(st.Kind) == OpFixed && now/st.Window == c.at/st.Window) {
				sum += c.n
			}
		}
		return sum
	}
	k, oldest := subIndex(now, st.Buckets, st.Window), int64(0)
	for _, c := range s.charge {
		if c.state != st {
			continue
		}
		switch at := subIndex(c.at, st.Buckets, st.Window); {
		case at == k-st.Buckets:
			oldest += c.n
		case at > k-st.Buckets:
			sum += c.n
		}
	}
	return usedAt(now, k, st.Buckets, st.Window, oldest, sum, strict)
}

func (s *side) admit(a *shard.Ask, granted int64) {
	if granted == 0 {
		return
	}
	now := max(s.clock, s.newest())
	for _, p := range a.Pairs {
		s.charge = append(s.charge, charged{p.State, now, granted * a.Cost})
	}
	s.charge = slices.DeleteFunc(s.charge, func(c charged) bool { return c.at+3*c.state.Window < now })
}

// ended tells whether something was forgotten in the last ms: a node that has dropped
// it does not know it again when its clock steps back.
func (s *side) ended(ms int64) bool {
	back := *s
	back.clock -= ms
	for _, c := range s.charge {
		if s.used(c.state, true) != back.used(c.state, true) {
			return true
		}
	}
	return false
}

// differ runs the scripts of split keys beside shard's functions: the same questions,
// losses and repetitions, and the same answers to each.
type differ struct {
	t       *testing.T
	rng     *rand.Rand
	server  *redistest.Server
	ways    *ways
	rules   shard.Rules
	home    *side
	parts   []*side // 1 and on
	misses  []*missed
	loans   []*shard.Loan
	recalls []shard.Recall
	reports []shard.Report
	granted int64
	taken   int
	plain   int // not 0: only questions of this command, as most keys have, or longLogs
	quick   int // entries that a part answered in whole
}

// longLogs has keys whose logs are too long for one piece.
const longLogs = 9

func (d *differ) run(script *lua.Script, s *side, args ...any) *reader {
	return &reader{d.ways.run(script, s.key, s.clock, args...), true}
}

func recent[T any](d *differ, from []T) (v T) {
	if len(from) > 0 {
		v = from[max(0, len(from)-1-d.rng.IntN(min(4, len(from))))]
	}
	return v
}

// request makes one of a few questions, so that some meet leases of their own.
func (d *differ) request() *Request {
	r := &Request{Key: []byte("k"), Buckets: 1, Op: OpSlide, N: 1}
	r.Windows[0], r.Cost = Window{100, 500}, 1
	switch {
	case d.plain == longLogs:
		r.Windows[0] = Window{20_000, 60_000}
		return r
	case d.plain > 0:
		r.Op = Op(d.plain)
		return r
	}
	switch d.rng.IntN(8) {
	case 0:
		r.Windows[0].Limit = 60
	case 1:
		r.N, r.Windows[1] = 2, Window{300, 2000}
	case 2, 3:
		r.Op, r.Buckets, r.Strict = OpCounter, 4, d.rng.IntN(3) > 0
	case 4:
		r.Op = OpFixed
	}
	r.Cost = []int64{1, 1, 1, 7, 40}[d.rng.IntN(5)]
	return r
}

func (d *differ) askPart() {
	i := d.rng.IntN(len(d.parts))
	s, r, n := d.parts[i], d.request(), 1+d.rng.Int64N(12)
	q := r.question()
	q.part = true
	a := &shard.Ask{Pairs: r.pairs(), Strict: r.Strict, Cost: r.Cost, N: n}
	reply := d.run(lua.Decide, s, string(appendUint(appendUint(nil, 3, 2), n, 4)), string(q.append(nil)))
	var before []int64
	for _, p := range a.Pairs {
		before = append(before, s.used(p.State, a.Strict))
	}
	want, miss := s.part.Ask(d.rules, s.clock, s.newest(), a, s.used)
	s.admit(a, want)
	reply.uint(6)
	require.EqualValues(d.t, 3, reply.uint(1), reply.s)
	require.Equal(d.t, want, reply.uint(4))
	reply.text(3)
	for i, p := range a.Pairs {
		used := reply.uint(6)
		if want == n { // what the part and the home leave, before this entry
			require.Equal(d.t, p.Limit-(s.part.Held[i]-before[i]+s.part.Rest[i]), used)
		}
		reply.text(verdictBytes - 6)
	}
	if reply.uint(2) > 0 {
		got := reply.miss(i+1, a.Pairs)
		miss.Part = i + 1
		require.Equal(d.t, miss, got.Miss)
		d.misses = append(d.misses, got)
	} else {
		require.Equal(d.t, n, want)
		d.quick++
	}
	d.granted += want
}

func (d *differ) askHome() {
	s, r, n := d.home, d.request(), 1+d.rng.Int64N(12)
	a := &shard.Ask{Pairs: r.pairs(), Strict: r.Strict, Cost: r.Cost, N: n}
	question := &shard.Question{Ask: a}
	miss := recent(d, d.misses)
	if miss != nil && (d.rng.IntN(3) == 0 || miss.Over && (len(miss.Used) != r.N || miss.Used[0].State != a.Pairs[0].State)) {
		miss = nil
	}
	var missBytes, reports, away []byte
	if miss != nil {
		question.Miss = &miss.Miss
		missBytes = miss.pack()
	}
	bare := d.plain > 0 && d.rng.IntN(2) == 0 // as a proxy asks that knows of no split
	if bare {
		question.Miss, miss, missBytes = nil, nil, nil
	}
	for range d.rng.IntN(4) {
		if len(d.reports) > 0 && !bare {
			report := recent(d, d.reports)
			question.Reports = append(question.Reports, report)
			reports = appendReport(reports, &report)
		}
	}
	if d.rng.IntN(4) == 0 && !bare {
		part := 1 + d.rng.IntN(len(d.parts))
		question.Away = append(question.Away, part)
		away = appendUint(away, int64(part), 4)
	}
	q := r.question()
	var own []int64
	for _, p := range a.Pairs {
		own = append(own, s.used(p.State, a.Strict))
	}
	if miss == nil && len(question.Reports) == 0 && len(away) == 0 && d.rng.IntN(2) == 0 {
		reply := d.run(lua.Decide, s, string(appendUint(appendUint(nil, 3, 2), n, 4)), string(q.append(nil)))
		want := s.home.Decide(d.rules, s.clock, question, own)
		s.admit(a, want.Granted)
		reply.uint(6)
		if status := reply.uint(1); status == 2 {
			require.EqualValues(d.t, s.home.Parts, reply.uint(2))
			require.Equal(d.t, len(want.Recall) > 0, reply.uint(1) == 1)
		} else {
			require.Zero(d.t, status, reply.s)
		}
		require.Equal(d.t, want.Granted, reply.uint(4))
		return
	}
	reply := d.run(lua.Lend, s, string(appendUint(appendUint(nil, n, 4), int64(s.home.Parts), 2)), string(q.append(nil)),
		string(missBytes), string(reports), string(away))
	want := s.home.Decide(d.rules, s.clock, question, own)
	s.admit(a, want.Granted)
	got := reply.answer(a, miss)
	require.True(d.t, reply.ok)
	require.Empty(d.t, reply.s)
	require.Equal(d.t, want.Granted, got.Granted)
	require.Equal(d.t, want.Loan, got.Loan)
	byState := func(a, b shard.State) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Buckets, b.Buckets))
	}
	for _, list := range [][]shard.Recall{want.Recall, got.Recall} {
		for i := range list {
			slices.SortFunc(list[i].States, byState)
		}
	}
	require.Equal(d.t, want.Recall, got.Recall)
	for i, p := range a.Pairs {
		require.Equal(d.t, s.used(p.State, a.Strict), got.tallies[i].own)
	}
	if want.Loan != nil {
		d.loans = append(d.loans, want.Loan)
	}
	d.recalls = append(d.recalls, want.Recall...)
	d.granted += want.Granted
}

func (d *differ) take() {
	loan := recent(d, d.loans)
	if loan == nil {
		return
	}
	s := d.parts[loan.Part-1]
	reply := d.run(lua.Take, s, string(appendLoan(nil, loan)))
	took := s.part.Take(d.rules, s.clock, loan)
	require.Equal(d.t, took, reply.uint(1) == 1)
	if took {
		s.part.Held, s.part.Rest = slices.Clone(loan.Held), slices.Clone(loan.Rest)
		d.taken++
	}
}

func (d *differ) recall() {
	if len(d.recalls) == 0 {
		return
	}
	to := recent(d, d.recalls)
	s := d.parts[to.Part-1]
	what := doRecall
	if d.rng.IntN(20) == 0 {
		what = doForget
	}
	got := d.run(lua.Recall, s, string(appendRecall(nil, what, &to))).report(&to).Report
	var want shard.Report
	if what == doForget {
		want = s.part.Forget(d.rules, s.clock, &to)
		if !want.Stale {
			s.charge = nil
		}
		want.Strict, got.Used = to.Strict, nil
	} else {
		want = s.part.Recall(s.clock, s.newest(), &to, s.used)
	}
	if got.Stale || got.Born == 0 {
		got.Used = nil
	}
	require.Equal(d.t, want, got)
	d.reports = append(d.reports, want)
}

// reset ends one: some parts are said to have forgotten.
func (d *differ) reset() {
	var told []byte
	var reports []shard.Report
	for _, r := range d.home.home.Recalls(d.rules, d.home.clock) {
		if d.rng.IntN(3) > 0 {
			reports = append(reports, shard.Report{Part: r.Part, Seq: r.Seq})
			told = appendUint(appendUint(told, int64(r.Part), 4), r.Seq, 7)
		}
	}
	done := d.run(lua.Forget, d.home, string(told)).uint(1) == 1
	d.home.home.Reset(reports)
	d.home.charge = nil
	require.Equal(d.t, len(d.home.home.Lent) == 0, done)
}

func (d *differ) step() {
	for _, s := range append(d.parts, d.home) {
		passed := d.rng.Int64N(60)
		if s != d.home && d.rng.IntN(100) == 0 && !s.ended(100) {
			passed = -d.rng.Int64N(100)
		}
		if d.rng.IntN(200) == 0 {
			passed = d.rng.Int64N(4000)
		}
		s.clock += passed
		if s != d.home && s.part.Born > 0 && s.part.Ends <= s.clock {
			d.server.Do("DEL", s.key, twin(s.key))
			s.part, s.charge = shard.Part{}, nil
		}
	}
	switch d.rng.IntN(40) {
	case 0:
		if d.plain != longLogs { // a log grows long if it is left alone
			d.reset()
		}
	case 1, 2, 3, 4, 5, 6, 7, 8:
		d.recall()
	default:
		if d.rng.IntN(2) == 0 {
			d.askPart()
			break
		}
		loans := len(d.loans)
		d.askHome()
		if len(d.loans) > loans || d.rng.IntN(4) == 0 {
			d.take()
		}
	}
}

// TestSplitScripts holds the scripts to shard/split_home.go and shard/split_part.go.
func TestSplitScripts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := &differ{t: t, rng: rand.New(rand.NewPCG(seed, 0)), server: redistest.Start(t), rules: splitRules}
	for i := range 4 {
		s := &side{key: "rl:{k%p" + strconv.Itoa(i) + "}", clock: testBase + d.rng.Int64N(10_000)}
		if i == 0 {
			s.key, s.home.Parts, d.home = "rl:{k}", 4, s
			continue
		}
		d.parts = append(d.parts, s)
	}
	d.ways = newWays(t, d.server)
	for i := range 20_000 {
		d.plain = []int{0, 0, 1, 2, 3}[i/400%5]
		if i >= 16_000 {
			d.plain = longLogs
		}
		d.step()
	}
	for _, status := range []byte{atHome, atPart} {
		for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
			require.Greater(t, d.ways.short[byWay{true, status, op, false}], 20, "%s, status %d", op, status)
		}
		require.Greater(t, d.ways.short[byWay{true, status, OpSlide, true}], 20, "long logs, status %d", status)
	}
	t.Logf("the short way was taken %v times", d.ways.short)
	require.Greater(t, d.taken, 100)
	require.Greater(t, d.granted, int64(5000))
	require.Greater(t, d.quick, 500)
	t.Logf("%d entries granted by parts, %d granted, %d loans taken of %d, %d recalls", d.quick, d.granted, d.taken, len(d.loans), len(d.recalls))
}
