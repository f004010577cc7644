package lua_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine/advance"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// messages has the structs of Go by the names of maps in messages.lua.
var messages = map[string]reflect.Type{
	"lend": reflect.TypeFor[wire.Lend](), "lent": reflect.TypeFor[wire.Lent](), "home": reflect.TypeFor[wire.HomeReply](),
	"decision": reflect.TypeFor[lease.HomeReply](), "tally": reflect.TypeFor[wire.Tally](), "loaned": reflect.TypeFor[wire.Loaned](),
	"loan": reflect.TypeFor[lease.Loan](), "pair": reflect.TypeFor[lease.Pair](), "taken": reflect.TypeFor[wire.LoanTaken](),
	"refused": reflect.TypeFor[wire.Refusal](), "refusal": reflect.TypeFor[lease.Refusal](), "use": reflect.TypeFor[lease.Units](),
	"order": reflect.TypeFor[wire.ShardOrder](), "recall": reflect.TypeFor[lease.Recall](),
	"reported": reflect.TypeFor[wire.ShardReport](), "report": reflect.TypeFor[lease.Report](),
	"forgot": reflect.TypeFor[wire.Forgot](), "forgetful": reflect.TypeFor[wire.Forgetful](), "forgotten": reflect.TypeFor[wire.Forgotten](),
	"ask": reflect.TypeFor[wire.AdvanceAsk](), "account": reflect.TypeFor[advance.Account](), "draw": reflect.TypeFor[advance.Draw](),
	"answer": reflect.TypeFor[wire.AdvanceAnswer](), "terms": reflect.TypeFor[advance.Terms](),
	"states": reflect.TypeFor[wire.KeyStates](), "inspected": reflect.TypeFor[wire.Inspected](),
	"advanced": reflect.TypeFor[wire.Advanced](),
}

// typeOf returns the type of a field as messages.lua has it. of is the type of its integers in the field's tag.
func typeOf(t reflect.Type, of string) string {
	switch {
	case t.Kind() == reflect.Slice:
		return typeOf(t.Elem(), of) + "*"
	case t.Kind() == reflect.Pointer:
		return typeOf(t.Elem(), of)
	case t.Kind() == reflect.Bool:
		return "flag"
	case t.Kind() == reflect.String:
		return "text"
	case t == reflect.TypeFor[lease.StateName]():
		return "state"
	}
	for name, message := range messages {
		if t == message {
			return name
		}
	}
	return of
}

// mapInLua and fieldInLua match the lines of messages.lua that begin a map and that describe a field.
var (
	mapInLua   = regexp.MustCompile(`^-- (\w+): `)
	fieldInLua = regexp.MustCompile(`^--   (\w+) +(\w+[*?]?)(\s|$)`)
)

// The messages with names have the same names, fields and types in Go and in Lua.
func TestMapsAreTheSameInGo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("messages.lua")
	require.NoError(t, err)
	inLua, inGo := map[string]map[string]string{}, map[string]map[string]string{}
	var fields map[string]string
	for line := range strings.Lines(string(text)) {
		if m := mapInLua.FindStringSubmatch(line); m != nil {
			fields = map[string]string{}
			inLua[m[1]] = fields
		} else if m := fieldInLua.FindStringSubmatch(line); m != nil && fields != nil {
			require.NotContains(t, fields, m[1])
			fields[m[1]] = m[2]
		}
	}
	for name, message := range messages {
		inGo[name] = map[string]string{}
		for i := range message.NumField() {
			f := message.Field(i)
			tag, of, _ := strings.Cut(f.Tag.Get("msg"), ",")
			tag, optional := strings.CutSuffix(tag, "?")
			if inGo[name][tag] = typeOf(f.Type, of); optional {
				inGo[name][tag] += "?"
			}
		}
	}
	require.Equal(t, inLua, inGo)
}

// What rlproxy packs comes back unchanged from a node that unpacks and packs it: integers up to 2^53, empty lists, and texts
// of any bytes and length.
func TestNodesKeepMessagesAsTheyAre(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	echo := func(message, into any) {
		reply := s.Do("EVAL", "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))", 0, string(wire.Pack(message)))
		require.NoError(t, wire.Unpack(reply, into))
		require.Equal(t, message, into)
	}
	var forgot wire.Forgot
	for bits := range 54 {
		for _, n := range []int64{-1, 0, 1} {
			forgot.Shards = append(forgot.Shards, wire.Forgetful{Shard: 1 + bits, Seq: min(max(1<<bits+n, 0), 1<<53)})
		}
	}
	echo(&forgot, new(wire.Forgot))
	for _, length := range []int{0, 1, 31, 32, 255, 256, 65_535, 65_536} {
		echo(&wire.Lend{Spec: strings.Repeat("\xff\x00", length)[:length]}, new(wire.Lend))
	}
}
