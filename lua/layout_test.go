package lua_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/stretchr/testify/require"
)

// kindNames has the kinds by their names in layout.lua.
var kindNames = map[string]limit.Kind{
	"SLIDE": limit.Slide, "COUNTER": limit.Counter, "FIXED": limit.Fixed, "GCRA": limit.GCRA, "CONCURRENCY": limit.Concurrency,
}

// Kinds and statuses have the same numbers in Go, on the wire and in stored records, and kinds the same properties.
func TestNumbersAreTheSameInGo(t *testing.T) {
	text, err := os.ReadFile("layout.lua")
	require.NoError(t, err)
	number := func(name string) int {
		found := regexp.MustCompile(`\b` + name + ` = (\d+)`).FindSubmatch(text)
		require.NotNil(t, found, name)
		n, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return n
	}
	for name, kind := range kindNames {
		require.Equal(t, int(kind), number(name), name)
	}
	known := 0
	for kind := range 256 {
		if k := limit.Kind(kind); k.Known() {
			known++
		}
	}
	require.Len(t, kindNames, known, "the kind of an algorithm is not compared")
	holdable := regexp.MustCompile(`HOLDABLE = \{.*\}`).Find(text)
	for name, kind := range kindNames {
		require.Equal(t, kind.Windowed() || kind == limit.Concurrency, regexp.MustCompile(`\.`+name+`\b`).Match(holdable), "units of %s can be held", name)
		file, err := os.ReadFile(strings.ToLower(name) + ".lua")
		require.Equal(t, kind == limit.Concurrency, err != nil, "%s has a file, except for slots", name)
		require.Equal(t, kind.Additive(), strings.Contains(string(file), "additive = true"), "%s is additive", name)
	}
	for name, status := range map[string]wire.Status{
		"DECIDED": wire.AtNode, "FAILED": wire.Failed, "AT_HOME": wire.AtHome, "AT_SHARD": wire.AtShard,
	} {
		require.Equal(t, int(status), number(name), name)
	}
	require.Equal(t, linger, number("LINGER"))
	reset := wire.HomeArgs(&limit.Spec{}, 0, nil, nil)[1] // a spec without windows
	require.Equal(t, int(reset[7]), number("RESET"))
	for _, name := range []string{"RESET", "HOME", "SHARD"} { // these are not algorithms
		require.False(t, limit.Kind(number(name)).Known(), name)
	}
}

// The bounds that the parser of commands checks are those that the library relies on.
func TestBoundsAreTheSameInGo(t *testing.T) {
	for _, bound := range []struct {
		file, name string
		most       int
	}{
		{"layout.lua", "STATES", engine.MaxStates},
		{"layout.lua", "BUCKETS", limit.MaxBuckets},
		{"layout.lua", "YEAR", limit.MaxWindow},
		{"lease.lua", "SHARDS", engine.MaxShards},
		{"ids.lua", "MOST", engine.MaxIDs},
		{"holds.lua", "MOST", engine.MaxHolds},
		{"holds.lua", "MOST_LEASES", engine.MaxSlotHolds},
	} {
		text, err := os.ReadFile(bound.file)
		require.NoError(t, err)
		require.Regexp(t, `\b`+bound.name+` = `+strconv.Itoa(bound.most)+`\b`, string(text), bound.file)
	}
}
