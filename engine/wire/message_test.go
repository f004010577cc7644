package wire

import (
	"bytes"
	"math"
	"testing"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
	"github.com/tinylib/msgp/msgp"
)

// sample is a message with a field of every kind.
type sample struct {
	Flag   bool            `msg:"flag"`
	Text   string          `msg:"text?"`
	N      int64           `msg:"n,units"`
	List   []int           `msg:"list,shard"`
	State  lease.StateName `msg:"state"`
	Nested *Forgetful      `msg:"nested?"`
	Uses   []lease.Units   `msg:"uses"`
}

func TestMessagesAreUnpackedAsTheyWerePacked(t *testing.T) {
	for _, m := range []sample{
		{},
		{Flag: true, Text: "a\x00\xff", N: maxUnits, List: []int{1, 999_999_999}},
		{N: 1 << 33, State: lease.StateName{Kind: 2, Buckets: 6, Window: 60_000}, Nested: &Forgetful{Shard: 3, Seq: 1 << 53}},
		{Text: string(bytes.Repeat([]byte("long"), 70_000)), Uses: []lease.Units{{StateName: lease.StateName{Kind: 1, Window: 5}, N: 7}, {N: 8}}},
	} {
		var got sample
		require.NoError(t, Unpack(string(Pack(&m)), &got))
		require.Equal(t, m, got)
	}
}

// pairs packs the header of a map with n fields, and then words: names and values in turn.
func pairs(n uint32, words ...any) string {
	b := msgp.AppendMapHeader(nil, n)
	for _, w := range words {
		b, _ = msgp.AppendIntf(b, w)
	}
	return string(b)
}

// Only a text that is exactly a message is one.
func TestMalformedMessagesAreErrors(t *testing.T) {
	good := pairs(2, "shard", 1, "seq", 2)
	var got Forgetful
	require.NoError(t, Unpack(good, &got))
	require.Equal(t, Forgetful{1, 2}, got)
	require.NoError(t, Unpack(pairs(2, "seq", int64(math.MaxUint32), "shard", uint64(7)), new(Forgetful)), "in any order and width")
	for name, text := range map[string]string{
		"empty":               "",
		"nonsense":            "nonsense",
		"a field too few":     pairs(1, "shard", 1),
		"a field too many":    pairs(3, "shard", 1, "seq", 2, "more", 3),
		"another field":       pairs(2, "shard", 1, "more", 2),
		"a field twice":       pairs(2, "shard", 1, "shard", 1),
		"more fields to come": pairs(3, "shard", 1, "seq", 2),
		"something after it":  good + "\x00",
		"a list":              "\x92\x01\x02",
		"no string as name":   pairs(2, 1, 1, "seq", 2),
		"a float":             pairs(2, "shard", 1, "seq", 2.5),
		"a whole float":       pairs(2, "shard", 1, "seq", 2.0),
		"nothing":             pairs(2, "shard", 1, "seq", nil),
		"a text":              pairs(2, "shard", 1, "seq", "2"),
		"beyond 2^63":         pairs(2, "shard", 1, "seq", uint64(math.MaxUint64)),
	} {
		require.ErrorIs(t, Unpack(text, new(Forgetful)), errMalformed, name)
	}
	for n := range good {
		require.ErrorIs(t, Unpack(good[:n], new(Forgetful)), errMalformed)
	}
	for name, text := range map[string]string{
		"a number below its bound": pairs(2, "shard", 0, "seq", 2),
		"a number beyond it":       pairs(2, "shard", 1, "seq", 1<<53+1),
		"a negative number":        pairs(2, "shard", 1, "seq", -2),
	} {
		require.ErrorIs(t, Unpack(text, new(Forgetful)), errInconsistent, name)
	}
	for name, text := range map[string]string{
		"a state that is too short": pairs(1, "states", []any{"1234567890"}),
		"a state that is too long":  pairs(1, "states", []any{"123456789012"}),
		"a state of another type":   pairs(1, "states", []any{1}),
	} {
		var m struct {
			States []lease.StateName `msg:"states"`
		}
		require.ErrorIs(t, Unpack(text, &m), errMalformed, name)
	}
}

// A node that lies about a length, or nests without end, takes neither memory nor stack.
func TestUnpackIsBoundedByTheText(t *testing.T) {
	lists := func(header string) string { return pairs(1, "shards") + header }
	for name, text := range map[string]string{
		"a list of 2^32 elements": lists("\xdd\xff\xff\xff\xff"),
		"a map of 2^32 fields":    "\xdf\xff\xff\xff\xff\xa6shards\x90",
		"a text of 2^32 bytes":    lists("\xdb\xff\xff\xff\xff"),
		"lists in lists":          lists(string(bytes.Repeat([]byte{0x91}, 10_000_000))),
		"maps in maps":            string(bytes.Repeat([]byte("\x81\xa6shards"), 1_000_000)),
	} {
		var err error
		allocated := testing.AllocsPerRun(1, func() { err = Unpack(text, new(Forgot)) })
		require.ErrorIs(t, err, errMalformed, name)
		require.Less(t, allocated, 20.0, name)
	}
}
