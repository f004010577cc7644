package forward

import (
	"errors"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/stretchr/testify/require"
)

// vocabulary holds words that occur in the reply to COMMAND and in commands.
var vocabulary = []string{
	"get", "mset", "", "flags", "RW", "OW", "RM", "access", "update", "incomplete", "begin_search", "find_keys", "spec", "type", "index",
	"keyword", "startfrom", "range", "keynum", "lastkey", "limit", "keystep", "keynumidx", "firstkey", "readonly", "write", "movablekeys",
	"no_mandatory_keys", "blocking", "pubsub", "admin", "@string", "@dangerous", "request_policy:all_shards", "request_policy:multi_shard",
	"response_policy:agg_sum", "BLOCK", "STORE", "rl:{a}", "a", "2", "-1", "9999999999999999999",
}

// value decodes a reply from bytes, and returns the remaining ones.
func value(b []byte, depth int) (any, []byte) {
	if len(b) < 2 {
		return nil, nil
	}
	kind, n, b := b[0], b[1], b[2:]
	switch {
	case kind < 100:
		return vocabulary[int(kind)%len(vocabulary)], b
	case kind < 140:
		return int64(int8(n)), b
	case kind < 150:
		return int64(n) << 56, b
	case depth == 0:
		return nil, b
	}
	list := make([]any, n%16)
	for i := range list {
		list[i], b = value(b, depth-1)
	}
	return list, b
}

// A module may register its commands in upper case, as Redis 8 does with those of vector sets.
func TestNamesOfCommandsAreInLowerCase(t *testing.T) {
	row := []any{"VADD", int64(-5), []any{"write"}, int64(1), int64(1), int64(1), []any{"@write"}, []any{}, []any{}, []any{}}
	found, err := parseCommands([]any{row}).find([][]byte{[]byte("VAdd"), []byte("k")})
	require.NoError(t, err)
	require.Equal(t, "vadd", found.name)
}

func TestCommandsThatCannotBeForwardedYetAreAnEpisode(t *testing.T) {
	w := logged.New()
	c := new(tableCache)
	c.open(w.Logger(), w.Now)
	w.RequireEpisodes(t, logged.Lines{
		Began:  `"cannot forward commands yet: no node answers COMMAND"`,
		Ended:  `"commands are forwarded: a node has answered COMMAND"`,
		Detail: ` error=NOPERM`, Count: "times",
	}, func() {
		c.table.Store(nil)
		c.learned(nil, errors.New("NOPERM"))
	}, func() { c.learned(nil, nil) })
	w.Said()
	c.learned(nil, nil)
	w.Said()
	c.learned(nil, errors.New("NOPERM"))
	require.Empty(t, w.Said(), "commands are forwarded by the table that there is")
}

// FuzzTable decodes an arbitrary reply to COMMAND. No command panics, or has keys outside
// its arguments.
func FuzzTable(f *testing.F) {
	f.Add([]byte{200, 1, 200, 10, 0, 0}, []byte{0, 1, 2})
	f.Add([]byte{
		200, 1, 200, 10, 0, 0, 100, 255, 200, 0, 100, 1, 100, 1, 100, 1, 200, 0, 200, 1, 34, 0, 200, 1,
		200, 6, 3, 0, 200, 1, 4, 0, 10, 0, 200, 4, 13, 0, 14, 0, 12, 0, 200, 2, 14, 0, 100, 1,
		11, 0, 200, 4, 13, 0, 17, 0, 12, 0, 200, 6, 19, 0, 100, 255, 21, 0, 100, 1, 20, 0, 100, 0,
	}, []byte{0, 38, 39, 40})
	fleet := openNodes(f, time.Second, "redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3")
	fw := openOn(f, fleet, Config{})
	fw.table.asked = time.Now().Add(time.Hour) // keeps the forwarder from asking a node
	f.Fuzz(func(t *testing.T, reply, words []byte) {
		v, _ := value(reply, 8)
		list, _ := v.([]any)
		table := parseCommands(list)
		var check func(rows commandTable)
		check = func(rows commandTable) {
			for name, row := range rows {
				args := [][]byte{[]byte(name)}
				for _, w := range words[:min(len(words), 8)] {
					args = append(args, []byte(vocabulary[int(w)%len(vocabulary)]))
				}
				for i := range row.specs {
					s := &row.specs[i]
					first, last, ok, _ := s.Range(args)
					require.True(t, !ok || 0 < first && first <= last && last < len(args) && s.Step > 0, "%+v of %q", s, args)
				}
				if !row.askKeys { // else a node would be asked
					fw.table.table.Store(&commandTable{name: row})
					_ = fw.Join(new(Pipeline), new(Transaction), args)
					_ = fw.ReadsLimits(new(Pipeline), args)
					_, _ = fw.Describe(new(Pipeline), args)
				}
				check(row.subs)
			}
		}
		check(table)
	})
}
