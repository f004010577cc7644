package split

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

func peek(most int64) engine.Request {
	r := ask("k", most, 3)
	r.Cost = 0
	return r
}

// A request without cost is answered with the sum of the home's and the shards' use. If a shard is
// unreachable or has lost its memory, everything that it may hold counts.
func TestPeekAddsUpAllShards(t *testing.T) {
	s, n := open(t, 4, Config{})
	states := []lease.StateName{slideState}
	home := homeReply(0, 4, 3, lent{1, 77, 10, states}, lent{2, 88, 10, states}, lent{3, 99, 10, states})
	n.reply = script([]string{home}, map[int]string{1: shardReport(1, 77, 4, 300, 10), 2: shardReport(2, 89, 1, 300, 10)})
	requests := left(nil, peek(30), peek(30))
	resolve(t, s, requests)
	for _, r := range requests {
		require.Nil(t, r.Failure)
		require.EqualValues(t, 30-3-4-10-10, r.Result.Remaining)
		require.True(t, r.Result.Allowed)
	}
	requests = left(nil, peek(27))
	resolve(t, s, requests)
	require.False(t, requests[0].Result.Allowed)
	require.EqualValues(t, 0, requests[0].Result.Remaining)
	require.Positive(t, requests[0].Result.RetryAfter)
}

// RL.INSPECT shows what each shard holds and uses, besides the home's own use.
func TestInspectShowsShards(t *testing.T) {
	s, n := open(t, 3, Config{})
	top := n.Topology()
	node := func(shard int) string { return top.Nodes[top.Locate([]byte("k"), shard)].Name() }
	states := []lease.StateName{slideState}
	whole := wholeReply(3, lent{1, 77, 0, states}, lent{2, 88, 0, states})
	n.reply = script([]string{whole, homeReply(0, 3, 5, lent{1, 77, 6, states}, lent{2, 88, 7, states})},
		map[int]string{1: shardReport(1, 77, 4, 300, 6)})
	requests := left(nil, conformance.Inspect("k"))
	requests[0].Result.States = []engine.Inspection{{Kind: limit.Slide, Window: 60_000, Param: 1, Used: 5, Limit: 20, Rate: 1, Node: node(0)}}
	resolve(t, s, requests)
	require.Nil(t, requests[0].Failure)
	require.Equal(t, []engine.Inspection{{
		Kind: limit.Slide, Window: 60_000, Param: 1, Used: 5 + 4 + 7, Limit: 20, Remaining: 4, Rate: 3, Node: node(0),
		Shards: []engine.Shard{
			{Node: node(0), Used: 5, Held: 5},
			{Number: 1, Node: node(1), Used: 4, Held: 6, Lease: 700},
			{Number: 2, Node: node(2), Used: 7, Held: 7}, // it is unreachable: everything that it was lent counts
		},
	}}, requests[0].Result.States)
}

// However many shards are unreachable, RL.INSPECT asks the home once for each state.
func TestInspectAsksOnceForAllUnreachableShards(t *testing.T) {
	s, n := open(t, 3, Config{})
	states := []lease.StateName{slideState}
	var lends []lent
	for shard := range 99 {
		lends = append(lends, lent{shard + 1, 77, 2, states})
	}
	reply, asked := script([]string{wholeReply(100, lends...), homeReply(0, 100, 5, lends...)}, nil), 0
	n.reply = func(c *Call) {
		if reply(c); c.Function == lua.Lend {
			asked++
		}
	}
	requests := left(nil, conformance.Inspect("k"))
	resolve(t, s, requests)
	require.Nil(t, requests[0].Failure)
	require.EqualValues(t, 2*99, requests[0].Result.States[0].Used)
	require.Equal(t, 2, asked)
}

// A reset makes all shards forget, then the home. It is tried again if shards get loans
// meanwhile, and fails if a shard is unreachable.
func TestResetForgetsEverywhere(t *testing.T) {
	var known denials.Cache
	s, n := open(t, 3, Config{Denials: &known})
	whole := wholeReply(3, lent{1, 77, 0, []lease.StateName{}})
	report := string(wire.Pack(&wire.ShardReport{Report: lease.Report{Shard: 1, Seq: 9, Incarnation: 77}, Clock: clock}))
	forgets, tries := [][]byte(nil), 0
	reply := script([]string{whole}, map[int]string{1: report})
	n.reply = func(c *Call) {
		if reply(c); c.Function == lua.Forget {
			forgets = c.Args
			if tries--; tries > 0 {
				c.Reply = forgotten(false)
			}
		}
	}
	tries = 3
	resets := known.Resets()
	requests := left(nil, conformance.Reset("k"))
	resolve(t, s, requests)
	require.Nil(t, requests[0].Failure)
	require.True(t, requests[0].Result.Reset)
	require.Equal(t, wire.Args(&wire.Forgot{Shards: []wire.Forgetful{{Shard: 1, Seq: 9}}}), forgets)
	require.Greater(t, known.Resets(), resets, "denials are forgotten")

	tries = resetTries + 1
	requests = left(nil, conformance.Reset("k"))
	resolve(t, s, requests)
	require.Equal(t, "the key's shards kept getting loans", requests[0].Failure.Why)

	reply = script([]string{whole}, nil)
	requests = left(nil, conformance.Reset("k"))
	resolve(t, s, requests)
	require.Equal(t, &Failure{Shard: 1, Why: "a shard of the key did not answer"}, requests[0].Failure)
	require.False(t, requests[0].Result.Reset)
}

// Malformed replies of nodes, and a panic, are failures.
func TestMalformedRepliesAboutWholeKeysAreFailures(t *testing.T) {
	s, n := open(t, 3, Config{})
	all := []engine.Request{peek(10), conformance.Inspect("k"), conformance.Reset("k")}
	for _, r := range all {
		n.reply = func(c *Call) { c.Reply = "nonsense" }
		requests := left(nil, r)
		resolve(t, s, requests)
		require.Equal(t, "the node's reply is malformed", requests[0].Failure.Why)
		n.reply = func(*Call) { panic("at the disco") }
		requests = left(nil, r)
		resolve(t, s, requests)
		require.Equal(t, "internal error: see the log", requests[0].Failure.Why)
	}
	require.Contains(t, n.log.String(), `doing="reading a split key" panic="at the disco"`)
	n.reply = func(c *Call) { c.Reply = forgotten(true) }
	requests := left(nil, conformance.Reset("k"))
	resolve(t, s, requests)
	require.NotNil(t, requests[0].Failure)
}
