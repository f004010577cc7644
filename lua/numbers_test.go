package lua_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

//go:generate go test -run TestAlgorithmsAreTheSameInGo -update .

var update = flag.Bool("update", false, "write testdata/kinds.txt")

// algorithm is what the file of an algorithm registers.
type algorithm struct {
	Kind                         limit.Kind
	Additive, Holdable, Straight bool
}

// registered returns all algorithms of the library.
func registered(t *testing.T) (all []algorithm) {
	t.Helper()
	reply := redistest.Start(t).Do("EVAL", lua.Body+`
		local algorithms = {}
		for kind, a in pairs(library().algorithms) do
			if a.charge then
				algorithms[#algorithms + 1] = { kind = kind, straight = a.straight ~= nil,
					additive = a.additive or false, holdable = a.holdable or false }
			end
		end
		return cjson.encode(algorithms)`, 0)
	require.NoError(t, json.Unmarshal([]byte(reply), &all))
	return all
}

// Each algorithm has the same number and the same properties here as in Go. testdata/kinds.txt keeps the numbers, because nodes
// store them: a number is never reused for another algorithm.
func TestAlgorithmsAreTheSameInGo(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, a := range registered(t) {
		require.True(t, a.Kind.Known(), a.Kind)
		require.Equal(t, a.Kind.Additive(), a.Additive, a.Kind)
		require.Equal(t, a.Kind.Windowed() || a.Kind == limit.Concurrency, a.Holdable, a.Kind)
		line := fmt.Sprintf("%d %s", a.Kind, a.Kind)
		if a.Additive {
			line += " additive"
		}
		if a.Holdable {
			line += " holdable"
		}
		lines = append(lines, line+"\n")
	}
	for kind := range limit.Kind(255) {
		if kind.Known() {
			require.Len(t, slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
				return !strings.HasPrefix(line, fmt.Sprintf("%d ", kind))
			}), 1, "a file registers %s", kind)
		}
	}
	slices.Sort(lines)
	if *update {
		require.NoError(t, os.WriteFile("testdata/kinds.txt", []byte(strings.Join(lines, "")), 0o600))
	}
	kept, err := os.ReadFile("testdata/kinds.txt")
	require.NoError(t, err)
	require.Equal(t, string(kept), strings.Join(lines, ""))
}

// Statuses and the kinds that are not algorithms have the same numbers in Go.
func TestNumbersAreTheSameInGo(t *testing.T) {
	var text []byte
	for _, name := range []string{"schema.lua", "messages.lua"} {
		part, err := os.ReadFile(name)
		require.NoError(t, err)
		text = append(text, part...)
	}
	number := func(name string) int {
		found := regexp.MustCompile(`\b` + name + ` = (\d+)`).FindSubmatch(text)
		require.NotNil(t, found, name)
		n, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return n
	}
	for name, status := range map[string]wire.Status{
		"DECIDED": wire.AtNode, "FAILED": wire.Failed, "AT_HOME": wire.AtHome, "AT_SHARD": wire.AtShard,
	} {
		require.Equal(t, int(status), number(name), name)
	}
	require.Equal(t, linger, number("LINGER"))
	reset := wire.NewLend(&limit.Spec{}, 0, nil).Spec // a spec without windows
	require.Equal(t, int(reset[7]), number("RESET"))
	for _, name := range []string{"RESET", "HOME", "SHARD"} {
		require.False(t, limit.Kind(number(name)).Known(), name)
	}
}

// The bounds that the parser of commands checks are those that the library relies on.
func TestBoundsAreTheSameInGo(t *testing.T) {
	for _, bound := range []struct {
		file, name string
		most       int
	}{
		{"schema.lua", "STATES", engine.MaxStates},
		{"counter.lua", "MOST", limit.MaxBuckets},
		{"schema.lua", "YEAR", limit.MaxWindow},
		{"lease.lua", "SHARDS", engine.MaxShards},
		{"ids.lua", "MOST", engine.MaxIDs},
		{"holds.lua", "MOST", engine.MaxHolds},
		{"holds.lua", "MOST_LEASES", engine.MaxSlotHolds},
		{"bucket.lua", "FILL", limit.MaxFill},
	} {
		text, err := os.ReadFile(bound.file)
		require.NoError(t, err)
		require.Regexp(t, `\b`+bound.name+` = `+strconv.Itoa(bound.most)+`\b`, string(text), bound.file)
	}
	require.EqualValues(t, 1e12, limit.MaxLimit, "as Lua has it")
	text, err := os.ReadFile("settle.lua")
	require.NoError(t, err)
	require.EqualValues(t, 1<<45, engine.MaxCount(limit.Slide))
	require.Contains(t, string(text), "COUNTABLE = 2 ^ 45 ")
}
