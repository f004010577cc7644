package lua_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// holder calls functions for the key k on one node, at a clock that the test sets, in ms after base.
type holder struct {
	*testing.T
	server   *redistest.Server
	at       int64 // ms after base
	scripted bool  // the library runs as a script
	asked    int   // requests whose cost was measured
}

func startHolder(t *testing.T) *holder {
	t.Helper()
	h := &holder{T: t, server: redistest.Start(t)}
	h.server.Do("FUNCTION", "LOAD", lua.Library.Source)
	return h
}

// on returns a holder for a subtest, on an empty node.
func (h *holder) on(t *testing.T) *holder {
	h.server.Do("FLUSHALL")
	return &holder{T: t, server: h.server, scripted: h.scripted}
}

const (
	stored = "rl:{k}"
	hashed = "rl:{k}%i"
)

func (h *holder) ask(f *lua.Function, args [][]byte) (string, error) {
	words := wire.KeysArgs(f, []string{stored}, strconv.FormatInt(base+h.at, 10), args, false, false)
	if h.scripted {
		words = append([]any{"eval", lua.Script.Source, 1, stored, f.Short()}, words[4:]...)
	}
	return h.server.Client.Do(context.Background(), words...).Text()
}

func (h *holder) must(f *lua.Function, args [][]byte) string {
	h.Helper()
	reply, err := h.ask(f, args)
	require.NoError(h, err)
	return reply
}

// slide returns a request of RL.SLIDE with pairs of a limit and a window in ms.
func slide(cost int64, pairs ...int64) *engine.Request {
	return asking(limit.Slide, cost, pairs...)
}

func asking(kind limit.Kind, cost int64, pairs ...int64) *engine.Request {
	r := &engine.Request{Key: []byte("k"), Spec: limit.Spec{Kind: kind, Cost: cost, Param: 1, N: len(pairs) / 2}}
	for i := range r.N {
		r.Windows[i] = limit.Window{Limit: pairs[2*i], Length: pairs[2*i+1]}
	}
	return r
}

// with returns a copy of r with an id, which holds its units for ttl ms.
func with(r *engine.Request, id string, ttl int64, release bool) *engine.Request {
	c := *r
	c.Hold = &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: ttl, Release: release}
	return &c
}

// once returns a copy of r with an id under which it is charged once.
func once(r *engine.Request, id string) *engine.Request {
	c := *r
	c.Hold = &engine.Hold{ID: engine.DigestOf([]byte(id)), Once: true}
	return &c
}

// acquire returns a request of RL.ACQUIRE.
func acquire(slots, cost, ttl int64, id string) *engine.Request {
	return with(asking(limit.Concurrency, cost, slots, 0), id, ttl, true)
}

func (h *holder) admit(r *engine.Request) wire.Admitted {
	h.Helper()
	a, err := wire.DecodeAdmit(h.must(lua.Admit, wire.AdmitArgs(r)), r)
	require.NoError(h, err)
	return a
}

// refused returns the error of a request.
func (h *holder) refused(r *engine.Request) error {
	h.Helper()
	_, err := h.ask(lua.Admit, wire.AdmitArgs(r))
	require.Error(h, err)
	return wire.KeyError(err.Error())
}

// five has the integers of RL.RESERVE's reply: allowed, limit, remaining, retry_after, reset_after.
type five [5]int64

func told(d limit.Decision) five {
	f := five{0, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter}
	if d.Allowed {
		f[0] = 1
	}
	return f
}

// reserve returns the reply of RL.RESERVE.
func (h *holder) reserve(r *engine.Request) five {
	h.Helper()
	a := h.admit(r)
	return told(a.Decision())
}

func (h *holder) answer(r *engine.Request) (wire.Answer, int64) {
	h.Helper()
	var c wire.Call
	c.Add(r, 0)
	args := c.Args("", false, false)[5:]
	all := make([][]byte, len(args))
	for i, a := range args {
		all[i] = []byte(a.(string))
	}
	answers, clock, err := c.Decode(h.must(lua.Decide, all))
	require.NoError(h, err)
	require.NotEqual(h, wire.Failed, answers[0].Status, answers[0].Failure)
	return answers[0], clock
}

// decide returns the reply of RL.SLIDE.
func (h *holder) decide(r *engine.Request) five {
	h.Helper()
	a, clock := h.answer(r)
	return told(r.Decide(a.Usages, clock, a.Granted, 0))
}

// settle returns the settlement that RL.SETTLE reports, and the number of lapsed holds that it removed.
func (h *holder) settle(kind limit.Kind, id string, cost int64) (engine.Settlement, int64) {
	h.Helper()
	r := &engine.Request{Op: engine.OpSettle, Spec: limit.Spec{Kind: kind, Cost: cost}, Hold: &engine.Hold{ID: engine.DigestOf([]byte(id))}}
	s, lapsed, err := wire.DecodeSettle(h.must(lua.Settle, wire.SettleArgs(r)))
	require.NoError(h, err)
	return s, lapsed
}

// renew renews leases in one call, and reports which of them were renewed.
func (h *holder) renew(ttl int64, ids ...string) (renewed []bool) {
	h.Helper()
	var requests []*engine.Request
	var keys []string
	for _, id := range ids {
		r := with(slide(0), id, ttl, true)
		r.Op = engine.OpRenew
		requests, keys = append(requests, r), append(keys, stored)
	}
	words := wire.KeysArgs(lua.Each, keys, strconv.FormatInt(base+h.at, 10), wire.EachArgs(requests), false, false)
	reply, err := h.server.Client.Do(context.Background(), words...).Text()
	require.NoError(h, err)
	all, err := wire.DecodeEach(reply, len(ids))
	require.NoError(h, err)
	for _, each := range all {
		done, _, err := wire.DecodeRenew(each.Reply)
		require.NoError(h, err, each.Failure)
		renewed = append(renewed, done)
	}
	return renewed
}

func (h *holder) inspect() []engine.Inspection {
	h.Helper()
	states, _, err := wire.DecodeStates(h.must(lua.Inspect, nil), "node")
	require.NoError(h, err)
	return states
}

func (h *holder) reset() int64 {
	h.Helper()
	a, _ := h.answer(&engine.Request{Op: engine.OpReset, Key: []byte("k")})
	return a.Granted
}

// linger is for how many ms a node stores a key after the last ms at which it matters.
const linger = 1000

// kept is everything that the node has stored: the record, the hash of ids, and the last ms at which they matter,
// after base.
type kept struct {
	record       string
	ids          map[string]string
	until, idsTo int64
}

// nothing is the kept of a node that has stored nothing.
var nothing = kept{ids: map[string]string{}}

func (h *holder) kept() kept {
	h.Helper()
	ctx, c := context.Background(), h.server.Client
	record, _ := c.Get(ctx, stored).Result() // empty, if there is none
	ends := func(key string) int64 {
		if at := c.PExpireTime(ctx, key).Val(); at > 0 {
			return int64(at/time.Millisecond) - linger - base
		}
		return 0
	}
	return kept{record, c.HGetAll(ctx, hashed).Val(), ends(stored), ends(hashed)}
}

// many admits n requests, and if settled, settles each of them with a cost of 0.
func (h *holder) many(n int, request func(i int) *engine.Request, settled bool) {
	h.Helper()
	ctx, clock := context.Background(), strconv.FormatInt(base+h.at, 10)
	for from := 0; from < n; from += 1024 {
		p := h.server.Client.Pipeline()
		for i := from; i < min(from+1024, n); i++ {
			r := request(i)
			p.Do(ctx, wire.KeysArgs(lua.Admit, []string{stored}, clock, wire.AdmitArgs(r), false, false)...)
			if settled {
				r.Cost = 0
				p.Do(ctx, wire.KeysArgs(lua.Settle, []string{stored}, clock, wire.SettleArgs(r), false, false)...)
			}
		}
		_, err := p.Exec(ctx)
		require.NoError(h, err)
	}
}
