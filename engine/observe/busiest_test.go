package observe

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// stream is a tracker with a clock of the test's own.
type stream struct {
	*busiest
	at time.Time
}

func newStream() *stream {
	s := &stream{at: time.Unix(1_800_000_000, 0)}
	s.busiest = newBusiest(func() time.Time { return s.at })
	return s
}

// see shows n equal answers about a key, one after the other.
func (s *stream) see(key string, n int, answer engine.Result) {
	for range n {
		s.observe(&engine.Pipeline{Requests: []engine.Request{{Key: []byte(key)}}, Results: []engine.Result{answer}}, s.at.Sub(s.started))
	}
}

// find returns what is known of a key, or nil.
func (s *stream) find(key string) *HotKey {
	keys := s.top(math.MaxInt)
	for i := range keys {
		if string(keys[i].Key) == key {
			return &keys[i]
		}
	}
	return nil
}

var (
	yes = engine.Result{Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 7}}
	no  = engine.Result{Decision: limit.Decision{Limit: 100}}
)

func TestHotKeysAreTheBusiest(t *testing.T) {
	s := newStream()
	for round := range 2000 {
		for i := range 20 {
			s.see(fmt.Sprint("cold", round*20+i), 1, yes)
		}
		answer := yes
		if round >= 125 {
			answer = no
		}
		s.see("hot", 8, answer)
		s.see("warm", 4, yes)
		s.at = s.at.Add(time.Millisecond)
	}
	keys := s.top(2)
	require.Len(t, keys, 2)
	require.Equal(t, "hot", string(keys[0].Key))
	require.EqualValues(t, 1000, keys[0].Admitted)
	require.EqualValues(t, 15000, keys[0].Denied)
	require.InEpsilon(t, 16000*0.1, keys[0].Rate, 0.15)
	require.InEpsilon(t, 15000*0.1, keys[0].DeniedRate, 0.15)
	require.EqualValues(t, []int64{100, 0}, []int64{keys[0].Limit, keys[0].Remaining})
	require.Equal(t, "warm", string(keys[1].Key))
	require.EqualValues(t, 8000, keys[1].Admitted)
	require.EqualValues(t, 7, keys[1].Remaining)
	require.Equal(t, 1, keys[0].Shards)
	require.LessOrEqual(t, len(s.top(1<<20)), hotStripes*hotTracked)
}

// A key is shown from its first decision on while there is a place, and from its tenth on
// if all places are taken, whatever else is asked meanwhile.
func TestKeysAreShownAfterTenDecisions(t *testing.T) {
	s := newStream()
	s.see("first", 1, yes)
	require.EqualValues(t, 1, s.find("first").Admitted)
	for i := range 2 * hotStripes * hotTracked {
		s.see(fmt.Sprint("busy", i), 20, yes)
	}
	s.see("new", 9, no)
	require.Nil(t, s.find("new"), "all places are taken")
	s.see("new", 1, no)
	require.InEpsilon(t, 1.0, s.find("new").Rate, 0.01, "ten decisions in 10 s")

	const others = 90_000 // decisions on other keys between the first and the tenth
	for i := range 10 {
		s.see("newer", 1, no)
		for j := range others / 10 {
			s.see(fmt.Sprint("once", i*others+j), 1, yes)
		}
	}
	require.NotNil(t, s.find("newer"))
}

func TestAnswersByFailPolicyAreCountedApart(t *testing.T) {
	s := newStream()
	s.see("k", 1, yes)
	s.see("k", 2, no)
	for _, p := range []engine.FailPolicy{engine.FailOpen, engine.FailClosed, engine.FailLocal, engine.FailError} {
		answer := engine.Result{Fail: p, Decision: limit.Decision{Allowed: p == engine.FailOpen, Limit: 50, Remaining: -1}}
		if p == engine.FailError {
			answer.Err = &engine.Unavailable{}
		}
		s.see("k", 1, answer)
	}
	s.see("k", 1, engine.Result{Fail: engine.FailLocal, Decision: limit.Decision{Allowed: true, Limit: 50, Remaining: -1}})
	s.see("k", 1, engine.Result{Err: engine.ErrStates})
	s.see("wrong", 1, engine.Result{Err: engine.ErrStates})
	k := s.find("k")
	require.EqualValues(t, []int64{8, 1, 3, 5, 2}, []int64{k.Decisions, k.Admitted, k.Denied, k.ByFail, k.Refused}, "what FAIL LOCAL denied was denied by a limit")
	require.EqualValues(t, -1, k.Remaining)
	require.InEpsilon(t, 0.8, k.Rate, 0.01)
	require.InEpsilon(t, 0.3, k.DeniedRate, 0.01)
	require.Nil(t, s.find("wrong"))
}

// Decisions with SHADOW are in the rate of their client's key, and in nothing else that could be
// taken for denials.
func TestAShadowIsSeenWithItsKey(t *testing.T) {
	s := newStream()
	shadow := func(key string, n int, answer engine.Result) {
		for range n {
			r := engine.Request{Key: shard.AppendName(nil, []byte(key), true), Shadow: true}
			s.observe(&engine.Pipeline{Requests: []engine.Request{r}, Results: []engine.Result{answer}}, s.at.Sub(s.started))
		}
	}
	stricter := engine.Result{Decision: limit.Decision{Limit: 3}}
	shadow("k", 1, engine.Result{Decision: limit.Decision{Allowed: true, Limit: 3, Remaining: 2}})
	require.EqualValues(t, []int64{3, 2}, []int64{s.find("k").Limit, s.find("k").Remaining}, "there is no other answer")
	s.see("k", 1, yes)
	shadow("k", 4, stricter)
	shadow("k", 2, engine.Result{Fail: engine.FailClosed, Decision: limit.Decision{Limit: 3}})
	shadow("k", 1, engine.Result{Err: engine.ErrStates})
	keys := s.top(10)
	require.Len(t, keys, 1)
	require.Equal(t, "k", string(keys[0].Key))
	require.InEpsilon(t, 0.8, keys[0].Rate, 0.01)
	keys[0].Rate = 0
	require.Equal(t, HotKey{Key: []byte("k"), Decisions: 1, Admitted: 1, Limit: 100, Remaining: 7, Shards: 1, ShadowDenied: 4}, keys[0])

	s.see("odd\xffs\xffk", 1, yes) // the name of the key odd\xffs
	require.NotNil(t, s.find("odd\xffs"))
}

// What neither admits nor denies is in the rate of a key. What becomes of its holds is not, and gives
// a key no place.
func TestHoldsAreSeenWithTheirKey(t *testing.T) {
	s := newStream()
	ask := func(key string, r engine.Request, answer engine.Result) {
		r.Key = []byte(key)
		s.observe(&engine.Pipeline{Requests: []engine.Request{r}, Results: []engine.Result{answer}}, s.at.Sub(s.started))
	}
	again, lapsed := yes, no
	again.Again, lapsed.Lapsed, lapsed.RetryAfter = true, 2, 100
	overrun := engine.Result{Settled: engine.Settlement{Settled: true, Charged: 9, Overrun: 4}, Lapsed: 1}
	ask("k", engine.Request{Op: engine.OpSettle}, overrun)
	require.Nil(t, s.find("k"))
	ask("k", engine.Request{}, yes)
	ask("k", engine.Request{}, again)
	ask("k", engine.Request{KeyNumber: 1}, no)
	ask("k", engine.Request{KeyNumber: 1}, lapsed)
	ask("k", engine.Request{Op: engine.OpSettle}, overrun)
	overrun.Settled.Again, overrun.Lapsed = true, 0
	ask("k", engine.Request{Op: engine.OpSettle}, overrun)
	k := s.find("k")
	require.InEpsilon(t, 0.4, k.Rate, 0.01)
	require.InEpsilon(t, 0.1, k.DeniedRate, 0.01)
	require.Equal(t, []int64{1, 1, 0, 3, 4}, []int64{k.Admitted, k.Denied, k.ByFail, k.Lapsed, k.Overrun})
}

// An old burst of denials does not rank above a fresh one.
func TestKeysAreSortedByDenialsPerSecond(t *testing.T) {
	s := newStream()
	s.see("old", 100_000, no)
	s.at = s.at.Add(time.Minute)
	s.see("fresh", 1000, no)
	s.see("busy", 5000, yes)
	names := func(by Order) (names []string) {
		keys := s.top(10)
		Sort(keys, by)
		for _, k := range keys {
			names = append(names, string(k.Key))
		}
		return names
	}
	require.Equal(t, []string{"busy", "fresh", "old"}, names(ByRate))
	require.Equal(t, []string{"fresh", "old", "busy"}, names(ByDenied))
	s.at = s.at.Add(2 * time.Minute)
	require.Empty(t, names(ByRate), "nobody asks about them any more")
}

// What a decision costs here: about a key that is tracked, about one of more keys than can
// be tracked, and about a key that was never seen before.
func BenchmarkTrackedKeys(b *testing.B)  { benchmarkBusiest(b, 512) }
func BenchmarkManyBusyKeys(b *testing.B) { benchmarkBusiest(b, 5000) }
func BenchmarkDistinctKeys(b *testing.B) { benchmarkBusiest(b, math.MaxInt) }

func benchmarkBusiest(b *testing.B, keys int) {
	hot := newBusiest(time.Now)
	p := engine.Pipeline{Requests: []engine.Request{{Key: []byte("tenant:01234567")}}, Results: make([]engine.Result, 1)}
	p.Results[0].Allowed = true
	number := p.Requests[0].Key[len("tenant:"):]
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(number, uint64(i%keys))
		hot.observe(&p, time.Duration(i)*time.Microsecond) // a million decisions a second
	}
}
