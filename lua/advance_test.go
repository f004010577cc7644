package lua_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/advance"
	"github.com/rlproxy/rlproxy/engine/advance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// advances runs the functions about advances beside their specification, with the same calls, and requires equal
// answers.
type advances struct {
	t     *testing.T
	rng   *rand.Rand
	node  *redistest.Server
	key   string
	clock int64
	home  *model.Home
	specs []limit.Spec
	known [3]*advance.Terms // by proxy and spec: what a proxy was told last
	about [3]limit.Spec     // by proxy: the spec of that
	seen  struct{ granted, denied, misdated, recalled, advanced, again int }
}

var algorithmOf = map[limit.Kind]model.Algorithm{
	limit.Slide: model.Log, limit.Counter: model.Counter, limit.Fixed: model.Fixed, limit.Bucket: model.Bucket,
}

// boundsOf returns what the specification calls a spec.
func boundsOf(s *limit.Spec) (all model.Bounds) {
	for _, w := range s.Limits() {
		m := model.Measure{Algorithm: algorithmOf[s.Kind], Parameter: s.Param, Window: w.Ms()}
		if period, _ := w.Calendar(); period != "" {
			m.Algorithm, m.Parameter = model.Calendar, w.EndsAt(0)-m.Window
		}
		all = append(all, model.Bound{Measure: m, Limit: w.Limit, Strict: s.Kind == limit.Counter && s.Manner != 0})
	}
	return all
}

// decide asks both for some equal requests.
func (a *advances) decide(s limit.Spec, requests int64) {
	var c wire.Call
	r := engine.Request{Key: []byte(a.key), Spec: s}
	for range requests {
		c.Add(&r, 0)
	}
	reply, err := a.node.Client.Do(context.Background(), c.Args(strconv.FormatInt(a.clock, 10), false, false)...).Text()
	require.NoError(a.t, err)
	answers, _, err := c.Decode(reply)
	require.NoError(a.t, err)
	got := answers[0]
	want := a.home.Decide(a.clock, &model.Ask{Bounds: boundsOf(&s), Cost: s.Cost, Requests: requests})
	if want.Misdated {
		a.seen.misdated++
		require.Equal(a.t, fmt.Sprint("CALENDAR ", a.clock), got.Failure)
		return
	}
	require.Empty(a.t, got.Failure)
	require.Equal(a.t, want.Recalled, got.Recalled, "%+v %+v", want, got)
	if s.Cost == 0 { // what it answers then is tested elsewhere
		return
	}
	require.Equal(a.t, want.Granted, got.Granted, "%+v %+v", want, got)
	switch {
	case want.Recalled:
		a.seen.recalled++
	case want.Granted < requests:
		a.seen.denied++
	default:
		a.seen.granted++
	}
}

// account has a proxy account to both, and ask for more.
func (a *advances) account(proxy int, s limit.Spec, account *advance.Account, want int64) {
	roundTrip := time.Duration(a.rng.IntN(2)*80) * time.Millisecond
	m := wire.NewAdvanceAsk(strconv.Itoa(proxy), &s, advance.Message{Account: account, Want: want}, advance.Span(advance.Usual, s.Shortest(), roundTrip))
	reply, err := callOn(a.node, lua.Advance, "rl:{"+a.key+"}", a.clock, wire.Args(m))
	require.NoError(a.t, err)
	got, err := wire.DecodeAdvance(reply, &s)
	require.NoError(a.t, err)
	var least int64
	answer := a.home.Decide(a.clock, &model.Ask{Proxy: int64(proxy), Bounds: boundsOf(&s), Cost: s.Cost, Account: account,
		Want: want, RoundTrip: roundTrip})
	require.Equal(a.t, answer.Terms, got.Terms)
	room, _ := a.home.Room(a.clock, boundsOf(&s))
	for i, w := range s.Limits() {
		if left := w.Limit - got.Used[i]; i == 0 || left < least {
			least = left
		}
	}
	require.Equal(a.t, room, least)
	if got.Terms.Number != 0 {
		a.seen.advanced++
	}
	a.known[proxy], a.about[proxy] = &got.Terms, s
}

func (a *advances) step() {
	pauses := []int64{0, 0, 1, 3, 20, 60, 300}
	if s := a.specs[0]; s.HasCalendar() && s.Windows[0].EndsAt(0)-a.clock < 800 {
		pauses = pauses[:5]
	} else if a.rng.IntN(60) == 0 {
		a.clock += a.rng.Int64N(4000)
	}
	a.clock += pauses[a.rng.IntN(len(pauses))]
	s := a.specs[a.rng.IntN(len(a.specs))]
	s.Cost = int64(1 + a.rng.IntN(3))
	if s.HasCalendar() && a.rng.IntN(20) > 0 { // seldom with a date that may be wrong
		s.Date(a.clock)
	}
	switch n := a.rng.IntN(20); {
	case n == 0 && a.rng.IntN(4) == 0:
		var c wire.Call
		r := engine.Request{Op: engine.OpReset, Key: []byte(a.key)}
		c.Add(&r, 0)
		require.NoError(a.t, a.node.Client.Do(context.Background(), c.Args(strconv.FormatInt(a.clock, 10), false, false)...).Err())
		a.home.Reset(a.clock)
	case n == 1:
		s.Cost = 0
		a.decide(s, 1)
	case n < 9:
		a.decide(s, 1+a.rng.Int64N(8))
	default:
		proxy := a.rng.IntN(len(a.known))
		s := a.specs[proxy%len(a.specs)]
		s.Cost = 1
		s.Date(a.clock)
		k, want := a.known[proxy], a.rng.Int64N(200)
		if a.rng.IntN(4) == 0 {
			want = 0
		}
		if k == nil || k.Number == 0 || a.rng.IntN(20) == 0 {
			a.account(proxy, s, nil, want)
			return
		}
		was, s := a.known[proxy], a.about[proxy]
		account := &advance.Account{Number: k.Number, Keep: k.Units}
		for at := k.Clock; account.Keep > 0 && a.rng.IntN(4) > 0; at += 1 + a.rng.Int64N(16) {
			d := advance.Draw{At: at, Units: 1 + a.rng.Int64N(account.Keep)}
			account.Draws, account.Keep = append(account.Draws, d), account.Keep-d.Units
		}
		a.account(proxy, s, account, want)
		switch a.rng.IntN(6) {
		case 0: // the account comes twice
			a.seen.again++
			a.account(proxy, s, account, want)
		case 1: // its answer is lost
			a.known[proxy] = was
		}
	}
}

// The functions about advances give the same answers as their specification.
func TestAdvancesAreAsSpecified(t *testing.T) {
	node := redistest.Start(t)
	node.Do("FUNCTION", "LOAD", lua.Library.Source)
	total := advances{}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := &advances{t: t, rng: rng, node: node, key: fmt.Sprintf("k%d", seed), clock: 4102444800000 + rng.Int64N(10000), home: model.NewHome()}
		s := limit.Spec{Kind: []limit.Kind{limit.Slide, limit.Counter, limit.Fixed, limit.Fixed, limit.Bucket}[rng.IntN(5)], N: 1 + rng.IntN(2), Param: 1}
		switch s.Kind {
		case limit.Counter:
			s.Param, s.Manner = []int64{1, 2, 10, 500}[rng.IntN(4)], rng.Int64N(2)
		case limit.Bucket:
			s.Param = 1 + rng.Int64N(300)
		}
		for i := range s.N {
			s.Windows[i] = limit.Window{Length: []int64{2000, 8000}[i], Limit: 100 + rng.Int64N(300)}
			if length, ok := limit.CalendarLength([]byte("day")); ok && i == 0 && s.Kind == limit.Fixed && seed%2 == 0 {
				s.Windows[i].Length = length
				a.clock -= 15_000 // it passes midnight
			}
			if seed%5 == 0 && s.Windows[i].Ms() < day { // a log that is too long for an inline record
				s.Windows[i].Length, s.Windows[i].Limit = s.Windows[i].Length*30, 2000+s.Windows[i].Limit
			}
		}
		other := s
		other.Windows[0].Limit -= 20
		if s.Kind == limit.Counter {
			other.Manner = 1 - s.Manner
		}
		a.specs = []limit.Spec{s, other}
		for i := range a.specs {
			a.specs[i].Date(a.clock)
		}
		t.Run(fmt.Sprintf("%d %v", seed, s.Kind), func(t *testing.T) {
			a.t = t
			for range 300 {
				a.step()
			}
		})
		if t.Failed() {
			return
		}
		total.seen.granted += a.seen.granted
		total.seen.denied += a.seen.denied
		total.seen.misdated += a.seen.misdated
		total.seen.recalled += a.seen.recalled
		total.seen.advanced += a.seen.advanced
		total.seen.again += a.seen.again
	}
	t.Logf("%+v", total.seen)
}

// A question about one key of a multi-key request may have to wait until advances come back. Then no other key is charged,
// because all of the request is asked again.
func TestAQuestionThatWaitsChargesNoOtherKey(t *testing.T) {
	node := redistest.Start(t)
	node.Do("FUNCTION", "LOAD", lua.Library.Source)
	s := limit.Spec{Kind: limit.Fixed, N: 1, Param: 1, Cost: 1}
	s.Windows[0] = limit.Window{Length: 60_000, Limit: 1000}
	const clock = 4102444800000
	ask := wire.NewAdvanceAsk("p", &s, advance.Message{Want: 100}, 250)
	_, err := callOn(node, lua.Advance, "rl:{b}", clock, wire.Args(ask))
	require.NoError(t, err)
	requests := []engine.Request{{Key: []byte("a"), Spec: s}, {Key: []byte("b"), Spec: s}}
	requests[1].Cost = 0
	words := []any{"fcall", lua.All.Name, 2, "rl:{a}", "rl:{b}", strconv.FormatInt(clock, 10)}
	for _, text := range wire.AllArgs(requests) {
		words = append(words, string(text))
	}
	reply, err := node.Client.Do(context.Background(), words...).Text()
	require.NoError(t, err)
	answers, _, all, err := wire.DecodeAll(reply, requests)
	require.NoError(t, err)
	require.True(t, answers[1].Recalled)
	require.False(t, all)
	require.Zero(t, node.Client.Exists(context.Background(), "rl:{a}").Val())
}

// A key has advances of 64 proxies. The next proxy gets one when one of these has ended.
func TestAKeyHasAdvancesOfSoManyProxies(t *testing.T) {
	const most, clock = 64, 4102444800000
	node := redistest.Start(t)
	node.Do("FUNCTION", "LOAD", lua.Library.Source)
	s := limit.Spec{Kind: limit.Slide, N: 1, Param: 1, Cost: 1}
	s.Windows[0] = limit.Window{Length: 60_000, Limit: 1_000_000}
	terms := func(proxy int, account *advance.Account, want int64) advance.Terms {
		m := wire.NewAdvanceAsk(strconv.Itoa(proxy), &s, advance.Message{Account: account, Want: want}, 250)
		reply, err := callOn(node, lua.Advance, "rl:{k}", clock, wire.Args(m))
		require.NoError(t, err)
		answer, err := wire.DecodeAdvance(reply, &s)
		require.NoError(t, err)
		return answer.Terms
	}
	var first advance.Terms
	for proxy := range most {
		got := terms(proxy, nil, 100)
		require.EqualValues(t, 100, got.Units, proxy)
		if proxy == 0 {
			first = got
		}
	}
	require.Zero(t, terms(most, nil, 100).Number)
	require.Zero(t, terms(0, &advance.Account{Number: first.Number}, 0).Number, "it is given back")
	require.EqualValues(t, 100, terms(most, nil, 100).Units)
}

// An account that removes lapsed holds says how many, once.
func TestAnAccountTellsOfLapsedHolds(t *testing.T) {
	const clock = 4102444800000
	node := redistest.Start(t)
	node.Do("FUNCTION", "LOAD", lua.Library.Source)
	s := limit.Spec{Kind: limit.Slide, N: 1, Param: 1, Cost: 1}
	s.Windows[0] = limit.Window{Length: 60_000, Limit: 1000}
	for _, id := range []string{"a", "b"} {
		r := engine.Request{Key: []byte("k"), Spec: s, Hold: &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: 100}}
		_, err := callOn(node, lua.Admit, "rl:{k}", clock, wire.AdmitArgs(&r))
		require.NoError(t, err)
	}
	call := func(clock int64, m advance.Message) advance.Terms {
		reply, err := callOn(node, lua.Advance, "rl:{k}", clock, wire.Args(wire.NewAdvanceAsk("p", &s, m, 250)))
		require.NoError(t, err)
		answer, err := wire.DecodeAdvance(reply, &s)
		require.NoError(t, err)
		return answer.Terms
	}
	first := call(clock, advance.Message{Want: 100})
	require.Zero(t, first.Lapsed)
	require.EqualValues(t, 100, first.Units)
	m := advance.Message{Account: &advance.Account{Number: first.Number, Keep: 100}, Want: 100}
	require.EqualValues(t, 2, call(clock+200, m).Lapsed)
	require.Zero(t, call(clock+200, m).Lapsed, "the account comes twice")
}

// A key is stored no longer than the calendar window of its advances lasts. When the clock steps back before the window,
// draws still count in it, and nothing is advanced.
func TestAdvancesOfADayWhoseClockStepsBack(t *testing.T) {
	node := redistest.Start(t)
	node.Do("FUNCTION", "LOAD", lua.Library.Source)
	s := limit.Spec{Kind: limit.Fixed, N: 1, Param: 1, Cost: 1}
	s.Windows[0].Limit = 1000
	s.Windows[0].Length, _ = limit.CalendarLength([]byte("day"))
	s.Date(base)
	a := advances{t: t, node: node, key: "k", clock: base + 10, home: model.NewHome()}
	a.decide(s, 1)
	call := func(clock int64, m advance.Message) *wire.AdvanceAnswer {
		reply, err := callOn(node, lua.Advance, "rl:{k}", clock, wire.Args(wire.NewAdvanceAsk("p", &s, m, 250)))
		require.NoError(t, err)
		answer, err := wire.DecodeAdvance(reply, &s)
		require.NoError(t, err)
		return answer
	}
	first := call(base+10, advance.Message{Want: 100}).Terms
	require.EqualValues(t, 100, first.Units)
	require.Equal(t, time.Duration(base+day+1000)*time.Millisecond, node.Client.PExpireTime(t.Context(), "rl:{k}").Val())
	account := advance.Account{Number: first.Number, Draws: []advance.Draw{{At: base + 11, Units: 3}}}
	require.EqualValues(t, 4, call(base-5, advance.Message{Account: &account}).Used[0])
	require.Zero(t, call(base-5, advance.Message{Want: 100}).Terms.Number)
	require.NotZero(t, call(base, advance.Message{Want: 100}).Terms.Number)
}

// A denial beside an advance that does not come back says that there is room when the window of its deadline ends.
func TestADenialOfAFixedWindowBesideASilentAdvance(t *testing.T) {
	node := redistest.Start(t)
	node.Do("FUNCTION", "LOAD", lua.Library.Source)
	const window = 60_000
	s := limit.Spec{Kind: limit.Fixed, N: 1, Param: 1, Cost: 1}
	s.Windows[0] = limit.Window{Length: window, Limit: 1000}
	_, err := callOn(node, lua.Advance, "rl:{k}", base+10, wire.Args(wire.NewAdvanceAsk("p", &s, advance.Message{Want: 480}, 250)))
	require.NoError(t, err)
	s.Cost = 600
	ask := func(clock int64) wire.Answer {
		var c wire.Call
		c.Add(&engine.Request{Key: []byte("k"), Spec: s}, 0)
		reply, err := node.Client.Do(t.Context(), c.Args(strconv.FormatInt(clock, 10), false, false)...).Text()
		require.NoError(t, err)
		answers, _, err := c.Decode(reply)
		require.NoError(t, err)
		return answers[0]
	}
	require.True(t, ask(base+20).Recalled)
	denied := ask(base + 100)
	require.False(t, denied.Recalled)
	require.EqualValues(t, 0, denied.Granted)
	require.EqualValues(t, window-100, denied.Usages[0].Room)
}

// A library from before advances, here one that knows them by another kind, decides nothing about a key of which units are
// advanced, and says why.
func TestAnOlderLibraryDecidesNothingWhileUnitsAreAdvanced(t *testing.T) {
	newer, older := redistest.Start(t), redistest.Start(t)
	newer.Do("FUNCTION", "LOAD", lua.Library.Source)
	require.Contains(t, lua.Library.Source, "ADVANCES = 10,")
	older.Do("FUNCTION", "LOAD", strings.Replace(lua.Library.Source, "ADVANCES = 10,", "ADVANCES = 11,", 1))
	s := limit.Spec{Kind: limit.Slide, N: 1, Param: 1, Cost: 1}
	s.Windows[0] = limit.Window{Length: 60_000, Limit: 1000}
	_, err := callOn(newer, lua.Advance, "rl:{k}", time.Now().UnixMilli(), wire.Args(wire.NewAdvanceAsk("p", &s, advance.Message{Want: 100}, 250)))
	require.NoError(t, err)
	record, err := newer.Client.Dump(t.Context(), "rl:{k}").Result()
	require.NoError(t, err)
	require.NoError(t, older.Client.Restore(t.Context(), "rl:{k}", time.Minute, record).Err())
	var c wire.Call
	c.Add(&engine.Request{Key: []byte("k"), Spec: s}, 0)
	reply, err := older.Client.Do(t.Context(), c.Args("", false, false)...).Text()
	require.NoError(t, err)
	answers, _, err := c.Decode(reply)
	require.NoError(t, err)
	require.Equal(t, "ERR the stored record of 'rl:{k}' is not of this version of rlproxy; RL.RESET removes it", answers[0].Failure)
}

// callOn calls a function about one key.
func callOn(node *redistest.Server, f *lua.Function, key string, clock int64, args [][]byte) (string, error) {
	words := wire.KeysArgs(f, []string{key}, strconv.FormatInt(clock, 10), args, false, false)
	return node.Client.Do(context.Background(), words...).Text()
}
