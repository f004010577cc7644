package redis

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// randomRequest returns a request of any kind, with any policy.
func randomRequest(rng *rand.Rand, shards int) engine.Request {
	key := fmt.Sprint("k", rng.IntN(4))
	r := conformance.Request(limit.Kind(1+rng.IntN(3)), key, 1+rng.Int64N(100), 1+rng.Int64N(60_000))
	r.Cost, r.Shards = rng.Int64N(min(3, r.Windows[0].Limit)), shards
	if r.Kind == limit.Counter {
		r.Param, r.Manner = 1+rng.Int64N(min(20, r.Windows[0].Length)), rng.Int64N(2)
	}
	id := fmt.Sprint("id", rng.IntN(4))
	switch rng.IntN(18) {
	case 0:
		r = conformance.Reset(key)
	case 1:
		r = conformance.Inspect(key)
	case 2:
		r = conformance.Throttle(key, rng.Int64N(20), 1+rng.Int64N(100), 1+rng.Int64N(60), rng.Int64N(3))
	case 3:
		r.N, r.Windows[1] = 2, limit.Window{Limit: r.Windows[0].Limit, Length: limit.MaxWindow}
	case 4:
		r = chargeOnce(key, id, 1+rng.Int64N(100))
	case 5:
		r = reserve(key, id, 10, 1+rng.Int64N(10))
	case 6:
		r = settle(key, id, rng.Int64N(10))
		r.Kind = limit.Slide
	case 7:
		r = acquire(key, id, 1+rng.Int64N(3))
	case 8:
		r = release(key, id)
	case 9:
		r = renew(key, id)
	}
	r.Fail = engine.FailPolicy(rng.IntN(engine.FailPolicies))
	return r
}

// requireAnswer requires that a request has an answer, and that the answer is possible.
func requireAnswer(t *testing.T, r *engine.Request, res *engine.Result) {
	t.Helper()
	if res.Err != nil {
		require.ErrorAs(t, res.Err, new(*engine.Unavailable))
		return
	}
	if r.Op != engine.OpDecide || r.KeyNumber > 0 || res.Again { // of several keys, or of another request
		return
	}
	d := res.Decision
	most := int64(0)
	for _, w := range r.Limits() {
		if w.Limit == d.Limit {
			most = w.Limit
		}
	}
	require.Positive(t, most, "%+v speaks of another limit: %+v", r, d)
	require.GreaterOrEqual(t, d.Remaining, int64(-1))
	require.LessOrEqual(t, d.Remaining, most)
	require.GreaterOrEqual(t, d.ResetAfter, int64(0))
	if d.Remaining < 0 && !d.Allowed && r.Kind != limit.GCRA { // which says -1 to what can never be admitted
		require.Positive(t, d.RetryAfter, "a policy says when to ask again")
	}
}

// babbleAt lets fake nodes send nonsense of the given kinds to an engine, chosen by the given bytes.
// It requires that every request is answered in time and without a panic, and that the engine works
// again when the nodes do.
func babbleAt(t *testing.T, bytes []byte, kinds ...func(b *babble, args []string) reply) {
	const timeout = 50 * time.Millisecond
	seed := uint64(len(bytes))
	for _, v := range bytes {
		seed = seed*31 + uint64(v)
	}
	nodes := []*fakeNode{startFake(t), startFake(t)}
	urls := []string{"redis://" + nodes[0].addr, "redis://" + nodes[1].addr}
	if seed%4 == 0 {
		urls = []string{"redis+cluster://" + nodes[0].addr}
	}
	var log proxytest.LockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := openOn(t, backend.Config{Backends: urls, Timeout: timeout, Logger: logger}, Config{Logger: logger, Settings: Settings{HotThreshold: 200}})
	for _, n := range nodes {
		n.set((&babble{node: n, kinds: kinds, bytes: bytes}).reply)
	}
	var done sync.WaitGroup
	for worker := range 3 {
		done.Add(1)
		go func() { // for its pipelines
			defer done.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(worker)))
			for i := range 6 {
				// Requests about split keys may take a few round trips.
				shards, within := 0, timeout+5*lateness
				if i%3 == 2 {
					shards, within = 3, 10*timeout+5*lateness
				}
				var p engine.Pipeline
				for range 1 + rng.IntN(12) {
					*p.Add() = randomRequest(rng, shards)
				}
				for key, kind := range rng.Perm(3) { // a multi-key request
					r := p.Add()
					*r = conformance.Request(limit.Kind(1+kind), fmt.Sprint("k", key), 1+rng.Int64N(100), 1+rng.Int64N(60_000))
					r.Param = 1 // an exact log has one, too
					if r.KeyNumber = uint8(key + 1); key == 0 {
						r.MoreKeys = 2
					}
				}
				began := time.Now()
				e.Do(&p)
				if took := time.Since(began); took > within {
					t.Errorf("a pipeline took %s", took)
				}
				for j := range p.Requests {
					requireAnswer(t, &p.Requests[j], &p.Results[j])
				}
			}
		}()
	}
	done.Wait()
	for _, n := range nodes {
		n.set(n.well)
	}
	e.fleet.SetTimeout(5 * time.Second)
	keys := []string{"a", "b", "c", "d"}
	require.Eventually(t, func() bool {
		for _, key := range keys {
			for _, r := range []engine.Request{charge(key, 10), splitRequest(key+"split", limit.Slide, 1, 3, limit.Window{Limit: 10, Length: 1000})} {
				if res := conformance.Ask(e, r); res.Err != nil || res.Remaining < 0 {
					return false
				}
			}
		}
		return true
	}, 20*time.Second, time.Millisecond, "the nodes are well again")
	require.NotContains(t, log.String(), "internal error")
}

// Whatever a node replies, every request is answered in time, and the node is used again once it
// replies correctly.
func TestNonsense(t *testing.T) {
	for _, kind := range nonsense {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 1))
				bytes := make([]byte, 200+rng.IntN(100))
				for i := range bytes {
					bytes[i] = byte(rng.UintN(256))
				}
				babbleAt(t, bytes, kind.make)
			}
		})
	}
}

// FuzzNode is TestNonsense with nonsense of all kinds together, chosen by bytes.
func FuzzNode(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		bytes := make([]byte, 1<<seed)
		for i := range bytes {
			bytes[i] = byte(rng.UintN(256))
		}
		f.Add(bytes)
	}
	var kinds []func(b *babble, args []string) reply
	for _, kind := range nonsense {
		kinds = append(kinds, kind.make)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { babbleAt(t, bytes, kinds...) })
}

// An answer that contradicts itself may be that to a request which was charged: it is neither sent to the key's home nor
// written back.
func TestAContradictoryAnswerIsNotChargedTwice(t *testing.T) {
	n := startFake(t)
	e := openAlways(t, 5*time.Second, "redis://"+n.addr)
	ready(t, e, "k")
	var status atomic.Int64 // of the answer
	var calls atomic.Int64
	n.set(func(args []string) reply {
		if args[0] != "fcall" {
			return n.well(args)
		}
		calls.Add(1)
		if args[1] != lua.Decide.Name || status.Load() == int64(wire.AtShard) && !strings.Contains(args[3], "%p") {
			return n.well(args)
		}
		now := time.Now().UnixMilli() // granted 1, and more units in use than there can be
		return reply{text: bulk(string(bytesOf(6, now, 1, status.Load(), 4, 1, 3, 0, 6, 1<<47, 6, 0, 6, now)) + strings.Repeat("\x00", int(status.Load()/3*2)))}
	})

	local := charge("k", 1000)
	local.Fail = engine.FailLocal
	res := conformance.Ask(e, local)
	require.True(t, res.Allowed)
	require.Equal(t, engine.FailLocal, res.Fail)
	require.Equal(t, "0", info(t, e, "local_unwritten"))
	require.Equal(t, map[string]int64{"malformed": 1}, failures(&e.Nodes()[0]))

	status.Store(int64(wire.AtShard))
	split := charge("k", 1000)
	split.Shards = 2
	for id := 0; ; id++ { // one whose shard is not the home
		require.Less(t, id, 100)
		split.ID = fmt.Append(nil, id)
		before := calls.Load()
		res := conformance.Ask(e, split)
		require.EqualValues(t, 1, calls.Load()-before, "it was sent again")
		if res.Err != nil {
			require.ErrorContains(t, res.Err, "contradicts itself")
			break
		}
	}
}

// Of the commands of a batch whose function the node does not know, all are sent again or all have failed, even if the
// last failure to load the library becomes old, or another batch has one, while their replies are read. A command that
// has failed and is sent again would be counted by FAIL LOCAL and charged as well.
func TestNothingThatHasFailedIsSentAgain(t *testing.T) {
	n := startFake(t)
	e := openAlways(t, 5*time.Second, "redis://"+n.addr)
	e.local.Stop() // it asks a node that refuses
	q := e.queues.OpenAll().Queues[0]
	const until = time.Second
	require.Error(t, q.loader.NoteLoad(backend.Reply("NOPERM"), until-time.Second)) // the last failure counts until then
	for name, at := range map[string][]time.Duration{"becomes old": {0, until}, "becomes recent": {until, 0}} {
		e.now = func() time.Time {
			now := at[0]
			at = at[min(1, len(at)-1):]
			return e.began.Add(now)
		}
		requests, results := []engine.Request{charge("k", 10), conformance.Inspect("k")}, make([]engine.Result, 2)
		b := &batch{parts: q.parts, q: q}
		for i := range requests {
			b.items = append(b.items, item{task: taskOf(&requests[i]), req: &requests[i], res: &results[i]})
		}
		b.build(t.Context())
		require.Len(t, b.cmds, 2)
		for _, cmd := range b.cmds {
			cmd.SetErr(backend.Reply("ERR Function not found"))
		}
		again := b.collect(false)
		for i := range results {
			require.Equal(t, again, results[i].Err == nil, "%s: command %d", name, i)
		}
	}
}
