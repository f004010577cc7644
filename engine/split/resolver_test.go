package split

import (
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// resolve resolves requests, and fails the test if that takes too long.
func resolve(t *testing.T, s *Splitter, requests []*Request) {
	t.Helper()
	done := make(chan struct{})
	go func() { // until they are answered
		s.Resolve(requests)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "requests are not answered")
	}
}

// decided checks that no request has failed, and returns whether each was admitted.
func decided(t *testing.T, requests []*Request) (admitted []bool) {
	t.Helper()
	for _, r := range requests {
		require.Nil(t, r.Failure)
		require.EqualValues(t, r.Windows[0].Limit, r.Result.Limit, "the result belongs to the request")
		admitted = append(admitted, r.Result.Allowed)
	}
	return admitted
}

// failed checks that all requests have failed for this reason.
func failed(t *testing.T, requests []*Request, why string) {
	t.Helper()
	for _, r := range requests {
		require.NotNil(t, r.Failure)
		require.Equal(t, why, r.Failure.Why)
		require.True(t, r.Failure.MaybeApplied)
		require.Zero(t, r.Result.Decision)
	}
}

// The home decides requests that a shard refused. Of equal requests it admits the first ones.
func TestHomeDecidesRefusedRequests(t *testing.T) {
	s, n := open(t, 3, Config{})
	var asked []*Call
	reply := script([]string{homeReply(2, 3, 8)}, nil)
	n.reply = func(c *Call) { asked = append(asked, c); reply(c) }
	r := ask("k", 10, 3)
	requests := left(refusal(1, clock), r, r, r)
	resolve(t, s, requests)
	require.Equal(t, []bool{true, true, false}, decided(t, requests))
	require.EqualValues(t, 1, requests[0].Result.Remaining)
	require.EqualValues(t, 0, requests[1].Result.Remaining)
	require.EqualValues(t, 500, requests[2].Result.RetryAfter)
	require.EqualValues(t, clock, requests[0].Result.Clock)
	require.Len(t, asked, 1)
	require.Same(t, lua.Lend, asked[0].Function)
	require.Zero(t, asked[0].Shard)
	require.EqualValues(t, 3, lendOf(asked[0]).Requests)
	require.Equal(t, 3, lendOf(asked[0]).Shards, "as wanted")
	require.Equal(t, &requests[0].Refusal.Refusal, lendOf(asked[0]).Refusal)
	require.Equal(t, 3, s.Shards(r.Key), "as the home says")
}

// Groups that are resolved together do not change each other's requests.
func TestGroupsOfOnePipelineKeepTheirRequests(t *testing.T) {
	s, n := open(t, 3, Config{})
	hold, more := make(chan struct{}), make(chan struct{}, 1)
	n.reply = func(c *Call) {
		select {
		case more <- struct{}{}:
			<-hold // the first call waits until all other requests have come
		default:
		}
		c.Reply = homeReply(lendOf(c).Requests, 3, 0)
	}
	r, costly := ask("k", 100, 3), ask("k", 100, 3)
	costly.Cost = 7
	first := left(nil, r)
	go s.Resolve(first) // until the home answers
	require.Eventually(t, func() bool { return len(more) == 1 }, 10*time.Second, time.Millisecond)
	requests := left(nil, r, costly, r, costly, costly, r)
	go func() { // until all wait
		for waiting := 0; waiting < 5; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			waiting = len(s.resolvers[idOf(&r)].waiting)
			s.mu.Unlock()
		}
		close(hold)
	}()
	resolve(t, s, requests)
	require.Equal(t, []bool{true, true, true, true, true, true}, decided(t, requests))
	require.EqualValues(t, 3, s.homeCalls.Load(), "one for the first request, then one for each cost")
}

// Shards that the home names are recalled, and their reports go to the home.
func TestShardsAreRecalled(t *testing.T) {
	s, n := open(t, 3, Config{})
	var asked []*Call
	reply := script([]string{
		homeReply(1, 3, 2, lent{1, 77, 4, []lease.StateName{slideState}}, lent{2, 88, 4, []lease.StateName{slideState}}),
		homeReply(1, 3, 3, lent{1, 77, 2, nil}, lent{2, 88, 4, nil}),
	}, map[int]string{1: shardReport(1, 77, 2, 300, 2)})
	n.reply = func(c *Call) { asked = append(asked, c); reply(c) }
	r := ask("k", 10, 3)
	requests := left(nil, r, r, r)
	resolve(t, s, requests)
	require.Equal(t, []bool{true, true, false}, decided(t, requests))
	require.Len(t, asked, 4)
	require.Equal(t, []int{0, 1, 2, 0}, []int{asked[0].Shard, asked[1].Shard, asked[2].Shard, asked[3].Shard})
	last := lendOf(asked[3])
	require.EqualValues(t, 2, last.Requests, "one has been granted")
	require.Equal(t, []lease.Report{{Shard: 1, Seq: 9, Incarnation: 77, Used: []lease.Units{{StateName: slideState, N: 2}}}}, last.Reports)
	require.Equal(t, []int{2}, last.Unreachable)
	require.EqualValues(t, 1, s.rounds.Load())
}

// The time that a node has for a group is that of its oldest request. Requests for which hardly
// any time is left are not sent, so that they do not shorten the time of others.
func TestLateRequestsAreNotSent(t *testing.T) {
	s, n := open(t, 3, Config{Patience: func() int64 { return 80 }})
	var sent []int64
	n.reply = func(c *Call) {
		sent = append(sent, c.Sent)
		c.Reply = homeReply(2, 3, 0)
	}
	r := ask("k", 10, 3)
	requests := left(nil, r, r, r)
	now := n.now.Load()
	requests[0].Sent, requests[1].Sent, requests[2].Sent = now-80, now, now-79
	resolve(t, s, requests)
	require.Equal(t, &Failure{Why: "no answer in time"}, requests[0].Failure)
	require.Equal(t, []bool{true, true}, decided(t, requests[1:]))
	require.Equal(t, []int64{now - 79}, sent)
}

// A loan is passed on to the shard that refused, without waiting for the result.
func TestLoansArePassedOn(t *testing.T) {
	s, n := open(t, 3, Config{})
	r := ask("k", 10, 3)
	home := reply(1, 3, 0)
	home.Loan = &lease.Loan{Shard: 2, Seq: 12, Clock: clock, Pairs: wire.Pairs(&r.Spec), Held: []int64{3}, Headroom: []int64{4}}
	n.reply = script([]string{string(wire.Pack(&wire.Lent{Home: home}))}, nil)
	requests := left(refusal(2, clock), r)
	resolve(t, s, requests)
	require.Equal(t, []bool{true}, decided(t, requests))
	require.Len(t, n.posted, 1)
	require.Same(t, lua.Take, n.posted[0].Function)
	require.Equal(t, 2, n.posted[0].Shard)
	require.Equal(t, wire.Args(home.Loan), n.posted[0].Args)
}

// A denial of the home is remembered, and equal requests that wait are denied by it.
func TestDenialsOfHomesAreRemembered(t *testing.T) {
	var known denials.Cache
	s, n := open(t, 3, Config{Denials: &known})
	n.reply = script([]string{homeReply(0, 3, 10)}, nil)
	r := ask("k", 10, 3)
	for range 3 {
		requests := left(nil, r, r)
		resolve(t, s, requests)
		require.Equal(t, []bool{false, false}, decided(t, requests))
	}
	require.EqualValues(t, 1, s.homeCalls.Load())
	require.EqualValues(t, 4, known.Answers())
	n.now.Add(500)
	resolve(t, s, left(nil, r))
	require.EqualValues(t, 2, s.homeCalls.Load(), "there may be room again")
}

// If the home's reply is malformed or missing, the requests fail.
func TestMalformedRepliesOfTheHomeAreFailures(t *testing.T) {
	s, n := open(t, 3, Config{})
	r := ask("k", 10, 3)
	for _, row := range []struct{ reply, why string }{
		{"", "the node's reply is malformed"},
		{"nonsense", "the node's reply is malformed"},
		{homeReply(1, 3, 0) + "x", "the node's reply is malformed"},
		{homeReply(9, 3, 0), "the node's reply contradicts itself"},
		{homeReply(0, 3, 1<<47), "the node's reply contradicts itself"},
	} {
		n.reply = func(c *Call) { c.Reply = row.reply }
		requests := left(nil, r, r)
		resolve(t, s, requests)
		failed(t, requests, row.why)
	}
	n.reply = func(c *Call) { c.Failure = &Failure{Why: "no answer in time", MaybeApplied: true} }
	requests := left(refusal(1, clock), r)
	resolve(t, s, requests)
	failed(t, requests, "no answer in time")
}

// A home that keeps naming shards to recall does not delay requests forever.
func TestHomeThatDoesNotDecide(t *testing.T) {
	s, n := open(t, 3, Config{})
	n.reply = script([]string{homeReply(0, 3, 2, lent{1, 77, 9, []lease.StateName{slideState}})}, map[int]string{1: shardReport(1, 77, 9, 5, 9)})
	r := ask("k", 10, 3)
	requests := left(nil, r, r)
	resolve(t, s, requests)
	failed(t, requests, "the key's home did not decide")
	require.EqualValues(t, maxRecalls, s.rounds.Load())
}

// A panic is logged and fails the requests of the round, except those that were answered before
// it. Later requests are answered.
func TestPanicOfAResolverFailsOnlyItsRound(t *testing.T) {
	var known denials.Cache
	s, n := open(t, 3, Config{Denials: &known})
	r, costly := ask("k", 10, 3), ask("k", 10, 3)
	costly.Cost = 2
	known.Remember(&costly, limit.Decision{Limit: 10, RetryAfter: 50}, 1000, 0)
	n.reply = func(*Call) { panic("at the disco") }
	requests := left(nil, costly, r, r)
	var resolved sync.WaitGroup
	resolved.Add(len(requests))
	for _, request := range requests {
		request.resolved = &resolved
	}
	f := &resolver{s: s, id: idOf(&r), key: r.Key, waiting: []*group{newGroup(requests[:1], nil), newGroup(requests[1:], nil)}}
	f.run()
	resolved.Wait()
	require.Equal(t, []bool{false}, decided(t, requests[:1]))
	failed(t, requests[1:], "internal error: see the log")
	require.Contains(t, n.log.String(), `msg="internal error" doing="resolving a split key" panic="at the disco"`)
	require.Contains(t, n.log.String(), "TestPanicOfAResolverFailsOnlyItsRound")

	resolve(t, s, left(nil, r))
	n.reply = script([]string{homeReply(1, 3, 0)}, nil)
	requests = left(nil, r)
	resolve(t, s, requests)
	require.Equal(t, []bool{true}, decided(t, requests))
	s.Close()
	require.Empty(t, s.resolvers)
}

// Different requests about one key get different answers.
func TestResolveDistinguishesRequests(t *testing.T) {
	s, n := open(t, 3, Config{})
	n.reply = func(c *Call) {
		spec := lendOf(c).Spec
		if most := int64(spec[len(spec)-1]); most == 10 {
			c.Reply = homeReply(1, 3, 9)
		} else {
			c.Reply = homeReply(0, 3, most)
		}
	}
	requests := left(nil, ask("a", 10, 3), ask("a", 11, 3), ask("b", 10, 3), ask("b", 12, 3))
	resolve(t, s, requests)
	require.Equal(t, []bool{true, false, true, false}, decided(t, requests))
}
