package redis

import (
	"fmt"
	"maps"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// The kinds of lease records.
const (
	homeKind  = 6
	shardKind = 7
)

// tables are the tables of a home that has lent 5 units of 10 to shard 1, and of that shard.
var tables = map[int]string{
	homeKind: `{shards=3, pairs=pair, strict=false, seq=clock*1000, no_lending_until=0,
		lent={{shard=1, seq=clock*1000, incarnation=1, ended=false, strict=false, out={[name]=5}}}}`,
	shardKind: `{incarnation=1, seq=clock*1000, pairs=pair, strict=false, held={5}, headroom={5}, taken=clock,
		lease=clock+1000}`,
}

// lease stores a record that has only a lease record for key k, at its home or at shard 1. Lua statements
// change its table t or its summary, and others then its kind, its packed table or the digest of that.
func (a *attacked) lease(t testing.TB, kind int, change, damage string) {
	t.Helper()
	script := fmt.Sprintf(`
		local clock, kind, summary, year = %d, %d, string.rep('\0', 43), 31622400000
		local function state(kind, buckets, window) return struct.pack('>BI5I5', kind, buckets, window) end
		local name = state(1, 1, 60000)
		local pair = name .. struct.pack('>I5', 10)
		local t = %s
		%s
		local packed = cmsgpack.pack(t)
		local digest = redis.sha1hex(packed):sub(1, 16)
		%s
		packed = digest .. packed
		local slots = math.ceil(#packed / 64) * 64
		return redis.call('SET', KEYS[1], struct.pack('>BI2BI5I5I5I3I3I6', 4, 1, kind, 1, 0, 0, #packed, slots, clock + 60000)
			.. summary .. packed .. string.rep('\0', slots - #packed), 'PX', 600000)`, a.ms.Load(), kind, tables[kind], change, damage)
	number := map[int]int{homeKind: 0, shardKind: 1}[kind]
	require.NoError(t, a.node.Client.Eval(t.Context(), script, []string{stored("k", number)}).Err())
}

// aboutLeases returns requests about key k that need the table of its home, and the one of them that
// asks shard 1 first.
func (a *attacked) aboutLeases() (all []engine.Request, through engine.Request) {
	plain := conformance.Request(limit.Slide, "k", 10, 60_000)
	plain.Fail = engine.FailError
	peek, split := plain, plain
	peek.Cost, split.Shards = 0, 3
	through = a.through(split, 1)
	return []engine.Request{plain, peek, a.through(split, 0), through}, through
}

// forgetAll deletes all keys of the node, so that earlier loans to shards do not count.
func (a *attacked) forgetAll(t testing.TB) {
	t.Helper()
	require.NoError(t, a.node.Client.FlushDB(t.Context()).Err())
}

// damages are what may have happened to a packed table and its digest.
var damages = map[string]string{
	"no table":         `digest, packed = '', ''`,
	"no digest":        `digest = ''`,
	"another digest":   `digest = redis.sha1hex(''):sub(1, 16)`,
	"another number":   `packed = packed:gsub('\5', '\6')`,
	"a byte less":      `packed = packed:sub(1, -2)`,
	"a byte more":      `packed = packed .. '\0'`,
	"nothing but ones": `packed = packed:gsub('.', '\1')`,
}

// If a home's table is not as a function has stored it, every request that needs it gets an error.
func TestDamagedHomeTables(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, _ := a.aboutLeases()
	for name, damage := range with(damages, "a shard's", `kind = 7`) {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, "", damage)
			require.Len(t, a.ask(t, "k", requests...), len(requests)+1)
			a.cured(t, "k", requests[0])
			a.unharmed(t)
		})
	}
}

// If a shard's table is not as a function has stored it, the home decides instead, and the shard begins anew.
func TestDamagedShardTables(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, through := a.aboutLeases()
	for name, damage := range with(damages, "a home's", `kind = 6`) {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, "", "")
			a.lease(t, shardKind, "", damage)
			require.Empty(t, a.ask(t, "k", requests[1])) // before the shard is asked to decide
			require.Empty(t, a.ask(t, "k", through))
			require.Zero(t, a.node.Client.Exists(t.Context(), stored("k", 1)).Val())
			require.Empty(t, a.ask(t, "k", requests...))
			a.unharmed(t)
		})
	}
}

func with(all map[string]string, name, damage string) map[string]string {
	all = maps.Clone(all)
	all[name] = damage
	return all
}

// The proxy accepts in replies what a home's table may have: requests are answered when numbers are at their
// bounds.
func TestHomeTablesAtTheirBounds(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, _ := a.aboutLeases()
	for name, change := range map[string]string{
		"as it is": "",
		"numbers": `t.shards, t.seq, t.no_lending_until = 1024, (clock + year) * 1000, clock + year
			t.lent[1].seq, t.lent[1].shard, t.lent[1].incarnation = t.seq, 999999999, clock + year`,
		"units":  `t.lent[1].out[name] = 2^46`,
		"states": `for i = 1, 63 do t.lent[1].out[state(2, 1000, year - i)] = 1 end`,
		"shards": `for i = 2, 1024 do t.lent[i] = {shard=i, seq=t.seq, incarnation=1, ended=false, strict=false, out={[name]=5}} end`,
	} {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, change, "")
			require.Empty(t, a.ask(t, "k", requests...))
			a.unharmed(t)
		})
	}
}

// The same is true of a shard's table. The number of shards in its lease summary has no meaning; only
// a home's has.
func TestShardTablesAtTheirBounds(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, through := a.aboutLeases()
	summary := func(bound int) string {
		return fmt.Sprintf("summary = struct.pack('>BBI5I5I5I6I6I6I6I2', 2, 1, 1, 60000, 10, %d, 0, clock, clock + 999, 3)", bound)
	}
	for name, change := range map[string]string{
		"as it is":                   "",
		"numbers":                    `t.seq, t.lease = (clock + year) * 1000, clock + year`,
		"units":                      `t.held, t.headroom = {10}, {0}`,
		"a summary with shards":      summary(5),
		"shards, and nothing to use": summary(0),
	} {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, "", "")
			a.lease(t, shardKind, change, "")
			states := conformance.Ask(a, conformance.Inspect("k")).States
			require.Len(t, states, 1)
			require.Positive(t, states[0].Shards[1].Lease, "the shard's report is understood")
			asked := info(t, a.Engine, "split_home_calls")
			res := conformance.Ask(a, through)
			require.NoError(t, res.Err)
			require.True(t, res.Allowed)
			require.Equal(t, asked, info(t, a.Engine, "split_home_calls"), "the shard has decided")
			require.Empty(t, a.ask(t, "k", requests...))
			a.unharmed(t)
		})
	}
}
