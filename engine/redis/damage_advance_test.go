package redis

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/advance"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// advance makes a proxy's call about an advance for requests like r.
func (a *attacked) advance(t testing.TB, r *engine.Request, m advance.Message) (*wire.AdvanceAnswer, error) {
	t.Helper()
	args := wire.Args(wire.NewAdvanceAsk("p\x05", &r.Spec, m, 250))
	words := wire.KeysArgs(lua.Advance, []string{stored(string(r.Key), 0)}, strconv.FormatInt(a.ms.Load(), 10), args, false, false)
	reply, err := a.node.Client.Do(t.Context(), words...).Text()
	if err != nil {
		return nil, err
	}
	return wire.DecodeAdvance(reply, &r.Spec)
}

// advanced stores a record of key k, of whose 1,000 units 100 are advanced, and returns a request about it. The advance is
// recalled, and silent, so that no request waits for it. Lua statements change the packed table or its digest.
func (a *attacked) advanced(t *testing.T, damage string) engine.Request {
	t.Helper()
	a.forgetAll(t)
	r := conformance.Request(limit.Slide, "k", 1000, 60_000)
	r.Fail = engine.FailError
	first, err := a.advance(t, &r, advance.Message{Want: 100})
	require.NoError(t, err)
	require.EqualValues(t, 100, first.Terms.Units)
	account := &advance.Account{Number: first.Terms.Number, Keep: 100}
	last, err := a.advance(t, &r, advance.Message{Account: account}) // which asks for no more is recalled
	require.NoError(t, err)
	require.True(t, last.Terms.Recalled)
	a.ms.Add(100)
	script := fmt.Sprintf(`
		local s = redis.call('GET', KEYS[1])
		local size = struct.unpack('>I3', s, 20)
		local digest, packed = s:sub(32, 47), s:sub(48, 31 + size)
		assert(digest == redis.sha1hex(packed):sub(1, 16))
		%s
		packed = digest .. packed
		local slots = math.ceil(#packed / 64) * 64
		return redis.call('SET', KEYS[1], s:sub(1, 19) .. struct.pack('>I3I3', #packed, slots) .. s:sub(26, 31)
			.. packed .. string.rep('\0', slots - #packed), 'KEEPTTL')`, damage)
	require.NoError(t, a.node.Client.Eval(t.Context(), script, []string{stored("k", 0)}).Err())
	return r
}

// If the table of what is advanced is not as a function has stored it, every request about the key gets an error, and so
// does the account, until the key is reset.
func TestDamagedAdvances(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	for name, damage := range with(damages, "another kind of table", `packed = cmsgpack.pack({ out = { { deadline = {} }, {} } })
		digest = redis.sha1hex(packed):sub(1, 16)`) {
		t.Run(name, func(t *testing.T) {
			r := a.advanced(t, damage)
			peek := r
			peek.Cost = 0
			require.Len(t, a.ask(t, "k", r, peek), 3)
			_, err := a.advance(t, &r, advance.Message{Want: 100})
			require.ErrorContains(t, err, "ERR the stored record of 'rl:{k}' is damaged")
			a.cured(t, "k", r)
			a.unharmed(t)
		})
	}
	r := a.advanced(t, "")
	require.Empty(t, a.ask(t, "k", r))
	require.EqualValues(t, 898, conformance.Ask(a, r).Remaining, "100 are advanced")
}
