package redis

import (
	"fmt"
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
		lent={{shard=1, seq=clock*1000, incarnation=1, over=false, strict=false, out={[name]=5}}}}`,
	shardKind: `{incarnation=1, seq=clock*1000, pairs=pair, strict=false, held={5}, headroom={5}, taken=clock,
		lease=clock+1000}`,
}

// lease stores a record that has only a lease record for key k, at its home or at shard 1. Lua
// statements change its kind, its table t and its summary; t may be nil.
func (a *attacked) lease(t testing.TB, kind int, change string) {
	t.Helper()
	script := fmt.Sprintf(`
		local clock, kind, summary, day, year = %d, %d, string.rep('\0', 40), 86400000, 31622400000
		local function state(kind, buckets, window) return struct.pack('>BI2I5', kind, buckets, window) end
		local name = state(1, 1, 60000)
		local pair = name .. struct.pack('>I5', 10)
		local t = %s
		%s
		local packed = t and cmsgpack.pack(t) or ''
		local slots = math.ceil(#packed / 64) * 64
		return redis.call('SET', KEYS[1], struct.pack('>BI2BI2I5I5I3I3I6', 2, 1, kind, 1, 0, 0, #packed, slots, clock + 60000)
			.. summary .. packed .. string.rep('\0', slots - #packed), 'PX', 600000)`, a.ms.Load(), kind, tables[kind], change)
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

// If a home's table is one that no function writes, every request that needs it gets an error.
func TestImpossibleHomeTables(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, _ := a.aboutLeases()
	lent := func(field, value string) string { return "t.lent[1]." + field + " = " + value }
	names := func(name string) string { return lent("out", "{["+name+"] = 5}") }
	for name, change := range map[string]string{
		"a shard's":                    `kind = 7`,
		"no table":                     `t = nil`,
		"a list":                       `t = {1, 2, 3}`,
		"no shards":                    `t.shards = 0`,
		"NaN shards":                   `t.shards = 0/0`,
		"1,025 shards":                 `t.shards = 1025`,
		"half a pair":                  `t.pairs = 'pair'`,
		"pairs of 9 windows":           `t.pairs = string.rep(pair, 9)`,
		"strictness that is a number":  `t.strict = 1`,
		"no lending for over a year":   `t.no_lending_until = clock + year + 1`,
		"lending never":                `t.no_lending_until = 1/0`,
		"a loan in the future":         `t.seq = (clock + day) * 1000 + 1`,
		"1,025 that were lent to":      `for i = 2, 1025 do t.lent[i] = t.lent[1] end`,
		"2^46 units of many":           lent("out[name]", "2^46") + " for i = 2, 1000 do t.lent[i] = t.lent[1] end",
		"shard 0":                      lent("shard", "0"),
		"shard NaN":                    lent("shard", "0/0"),
		"shard 1.5":                    lent("shard", "1.5"),
		"shard 10^9":                   lent("shard", "1e9"),
		"shard 2^60":                   lent("shard", "2^60"),
		"a shard's seq of the future":  lent("seq", "(clock + day) * 1000 + 1"),
		"a shard's seq of no time":     lent("seq", "0/0"),
		"a negative incarnation":       lent("incarnation", "-1"),
		"an incarnation of the future": lent("incarnation", "clock + year + day + 1"),
		"no end of the lease":          lent("over", "nil"),
		"more than 2^46 units":         lent("out[name]", "2^46 + 1"),
		"infinite units":               lent("out[name]", "1/0"),
		"units that are no number":     lent("out[name]", "0/0"),
		"half a unit":                  lent("out[name]", "0.5"),
		"negative units":               lent("out[name]", "-5"),
		"65 states":                    lent("out", "{}") + " for i = 1, 65 do t.lent[1].out[state(1, 1, i)] = 1 end",
		"20,000 states":                lent("out", "{}") + " for i = 1, 20000 do t.lent[1].out[state(1, 1, i)] = 1 end",
		"a state's short name":         names("'name'"),
		"units of nothing":             names("state(0, 1, 60000)"),
		"units of a rate":              names("state(4, 1, 0)"),
		"units of a rate's window":     names("state(4, 1, 60000)"),
		"units of a reset":             names("state(5, 1, 60000)"),
		"units of a lease record":      names("state(6, 1, 0)"),
		"units of an unknown kind":     names("state(9, 1, 60000)"),
		"no window":                    names("state(1, 1, 0)"),
		"a window of more than a year": names("state(1, 1, year + 1)"),
		"no buckets":                   names("state(2, 0, 60000)"),
		"1,001 buckets":                names("state(2, 1001, 60000)"),
		"more buckets than ms":         names("state(2, 10, 9)"),
	} {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, change)
			require.Len(t, a.ask(t, "k", requests...), len(requests)+1)
			a.cured(t, "k", requests[0])
			a.unharmed(t)
		})
	}
}

// If a shard's table is one that no function writes, the home decides instead, and the shard begins
// anew.
func TestImpossibleShardTables(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, through := a.aboutLeases()
	for name, change := range map[string]string{
		"a home's":                     `kind = 6`,
		"no table":                     `t = nil`,
		"a list":                       `t = {1, 2, 3}`,
		"half a pair":                  `t.pairs = 'pair'`,
		"pairs of 9 windows":           `t.pairs, t.held, t.headroom = string.rep(pair, 9), {1,1,1,1,1,1,1,1,1}, {1,1,1,1,1,1,1,1,1}`,
		"no strictness":                `t.strict = nil`,
		"a negative incarnation":       `t.incarnation = -1`,
		"an incarnation of the future": `t.incarnation = clock + year + 1`,
		"a loan in the future":         `t.seq = (clock + day) * 1000 + 1`,
		"taken in the future":          `t.taken = clock + year + 1`,
		"a lease of more than a year":  `t.lease = clock + year + 1`,
		"a lease without end":          `t.lease = 1/0`,
		"infinite units":               `t.held = {1/0}`,
		"units that are no number":     `t.held = {0/0}`,
		"half a unit":                  `t.held = {0.5}`,
		"negative units":               `t.headroom = {-5}`,
		"more than 2^46 units":         `t.held = {2^46 + 1}`,
		"units of two windows":         `t.held = {5, 5}`,
		"no headroom":                  `t.headroom = {}`,
		"headroom of two windows":      `t.headroom = {5, 5}`,
		"units by name":                `t.held = {[name] = 5}`,
		"more than the limit":          `t.held, t.headroom = {11}, {0}`,
		"headroom beyond the limit":    `t.headroom = {6}`,
	} {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, "")
			a.lease(t, shardKind, change)
			require.Empty(t, a.ask(t, "k", requests[1])) // before the shard is asked to decide
			require.Empty(t, a.ask(t, "k", through))
			require.Zero(t, a.node.Client.Exists(t.Context(), stored("k", 1)).Val())
			require.Empty(t, a.ask(t, "k", requests...))
			a.unharmed(t)
		})
	}
}

// The proxy accepts in replies what the library accepts in a home's table: requests are answered when
// numbers are at their bounds.
func TestHomeTablesAtTheirBounds(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	requests, _ := a.aboutLeases()
	for name, change := range map[string]string{
		"as it is": "",
		"numbers": `t.shards, t.seq, t.no_lending_until = 1024, (clock + day) * 1000, clock + year
			t.lent[1].seq, t.lent[1].shard, t.lent[1].incarnation = t.seq, 999999999, clock + year + day`,
		"units":  `t.lent[1].out[name] = 2^46`,
		"states": `for i = 1, 63 do t.lent[1].out[state(2, 1000, year - i)] = 1 end`,
		"shards": `for i = 2, 1024 do t.lent[i] = {shard=i, seq=t.seq, incarnation=1, over=false, strict=false, out={[name]=5}} end`,
	} {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, change)
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
		return fmt.Sprintf("summary = struct.pack('>BBI2I5I5I6I6I6I6I2', 2, 1, 1, 60000, 10, %d, 0, clock, clock + 999, 3)", bound)
	}
	for name, change := range map[string]string{
		"as it is":                   "",
		"numbers":                    `t.seq, t.lease = (clock + day) * 1000, clock + year`,
		"units":                      `t.held, t.headroom = {10}, {0}`,
		"a summary with shards":      summary(5),
		"shards, and nothing to use": summary(0),
	} {
		t.Run(name, func(t *testing.T) {
			a.forgetAll(t)
			a.lease(t, homeKind, "")
			a.lease(t, shardKind, change)
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
