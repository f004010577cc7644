package hotkeys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/stretchr/testify/require"
)

func TestRecordsKeepWhatIsPublished(t *testing.T) {
	keys := []observe.HotKey{
		{Key: []byte("tenant:42"), Rate: 1234.567, DeniedRate: 0.125, Decisions: 9, Admitted: 1 << 50, Denied: 3, ByFail: 4, Limit: 1e12, Remaining: -1, Shards: 4, ShadowDenied: 5, Lapsed: 6, Overrun: 7},
		{Key: []byte("\x00\xff\"}"), Rate: 0.01, Remaining: 7, Limit: 9, Shards: 1},
	}
	text := encode(keys, 7)
	require.True(t, json.Valid(text))
	r, err := decode(text)
	require.NoError(t, err)
	require.EqualValues(t, 7, r.Seq)
	keys[0].Rate, keys[0].DeniedRate = 1234.57, 0.13
	for i, k := range r.Keys {
		require.Equal(t, keys[i], observe.HotKey(k))
	}
	r, err = decode(encode(nil, 1))
	require.NoError(t, err)
	require.Empty(t, r.Keys)
}

// A record has at most 100 keys in 16 KB. Half of them are those that are denied most.
func TestRecordsAreBounded(t *testing.T) {
	var keys []observe.HotKey
	for i := range 1000 {
		k := observe.HotKey{Key: fmt.Appendf(nil, "k%d", i), Rate: float64(1000 - i), Shards: 1}
		if i >= 980 {
			k.DeniedRate = k.Rate
		}
		keys = append(keys, k)
	}
	r, err := decode(encode(keys, 1))
	require.NoError(t, err)
	require.Len(t, r.Keys, maxKeys)
	names := make(map[string]bool)
	for _, k := range r.Keys {
		names[string(k.Key)] = true
	}
	for i := range 80 {
		require.True(t, names[fmt.Sprint("k", i)], "one of the busiest: %d", i)
	}
	for i := 980; i < 1000; i++ {
		require.True(t, names[fmt.Sprint("k", i)], "one of those that are denied: %d", i)
	}

	for i := range 10 {
		keys[i].Key = bytes.Repeat([]byte{byte(i)}, engine.MaxKey)
	}
	text := encode(keys, 1)
	require.LessOrEqual(t, len(text), maxRecord)
	r, err = decode(text)
	require.NoError(t, err)
	require.Greater(t, len(r.Keys), 80, "a key that is too long for the rest leaves room for others")
}

// An older proxy reads what a newer one publishes, unless it is another version.
func TestRecordsOfOtherVersions(t *testing.T) {
	const fields = `"aw==",2.5,1,3,4,5,6,7,8,9,10,11,12,13,14`
	r, err := decode([]byte(`{"v":1,"seq":9,"zone":"b","keys":[[` + fields + `,{"p99":[1]},null]]}`))
	require.NoError(t, err)
	require.Equal(t, observe.HotKey{
		Key: []byte("k"), Rate: 2.5, DeniedRate: 1, Admitted: 3, Denied: 4, ByFail: 5, Limit: 6, Remaining: 7, Shards: 8, ShadowDenied: 9, Lapsed: 10, Overrun: 11,
		Drawn: 12, Refused: 13, Decisions: 14,
	}, observe.HotKey(r.Keys[0]))
	r, err = decode([]byte(`{"v":1,"seq":9,"keys":[["aw==",2.5,1,3,4,5,6,7,8]]}`)) // before there was SHADOW
	require.NoError(t, err)
	require.Equal(t, 8, r.Keys[0].Shards)
	require.Zero(t, r.Keys[0].ShadowDenied)
	require.EqualValues(t, 3+4+5, r.Keys[0].Decisions)
	_, err = decode([]byte(`{"v":2,"seq":9,"keys":{"k":1}}`))
	require.Error(t, err)
	_, err = decode([]byte(`{"v":2,"seq":9,"keys":[]}`))
	require.ErrorContains(t, err, "version 2")
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	key := func(fields string) string { return `{"v":1,"seq":1,"keys":[[` + fields + `]]}` }
	require.NoError(t, second(decode([]byte(key(`"aw==",1,0,0,0,0,0,-1,1`)))))
	for _, text := range []string{
		"", "nonsense", "{}", "[]", "7", "null", `{"v":1,"keys":7}`, `{"v":1,"keys":[7]}`, `{"v":1,"keys":[[]]}`, `{"v":1,"keys":[null]}`,
		key(`"aw==",1,0,0,0,0,0`),         // too few fields
		key(`"a",1,0,0,0,0,0,0,1`),        // not base64
		key(`"aw==",1,0,0,0,1e300,0,0,1`), // not a whole number
		`{"v":1,"seq":1,"keys":[` + strings.Repeat(`["aw==",1,0,0,0,0,0,0,1],`, maxKeys) + `["aw==",1,0,0,0,0,0,0,1]]}`,
		strings.Repeat("[", maxRecord), strings.Repeat(" ", maxRecord) + key(`"aw==",1,0,0,0,0,0,0,1`),
	} {
		require.Error(t, second(decode([]byte(text))), "%.200s", text)
	}
}

// A key that no proxy can have published is left out of its record. The other keys count.
func TestInvalidKeysAreLeftOut(t *testing.T) {
	for _, fields := range []string{
		`"",1,0,0,0,0,0,0,1`,      // no key
		`"aw==",-1,0,0,0,0,0,0,1`, // less than none
		`"aw==",1,1e300,0,0,0,0,0,1`,
		`"aw==",1,0,9007199254740993,0,0,0,0,1`,
		`"aw==",1,0,0,-1,0,0,0,1`,
		`"aw==",1,0,0,0,0,0,-2,1`,
		`"aw==",1,0,0,0,0,0,0,1,-1`,
		`"aw==",1,0,0,0,0,0,0,1,0,0,9007199254740993`,
		`"aw==",1,0,0,0,0,0,0,0`,
		`"aw==",1,0,0,0,0,0,0,1025`,
		`"` + strings.Repeat("aaaa", 1366) + `",1,0,0,0,0,0,0,1`, // 4,098 bytes
	} {
		r, err := decode([]byte(`{"v":1,"seq":1,"keys":[["YQ==",1,0,0,0,0,0,0,1],[` + fields + `],["Yg==",1,0,0,0,0,0,0,1]]}`))
		require.NoError(t, err, fields)
		require.Len(t, r.Keys, 2, fields)
		require.Equal(t, "ab", string(r.Keys[0].Key)+string(r.Keys[1].Key))
	}
}

// A number above the bound, such as a huge overrun, is published as the bound.
func TestNumbersArePublishedUpToABound(t *testing.T) {
	r, err := decode(encode([]observe.HotKey{
		{Key: []byte("a"), Shards: 1, Overrun: maxCount + 1, Admitted: math.MaxInt64}, {Key: []byte("b"), Shards: 1},
	}, 1))
	require.NoError(t, err)
	require.Len(t, r.Keys, 2)
	require.Equal(t, []int64{maxCount, maxCount}, []int64{r.Keys[0].Overrun, r.Keys[0].Admitted})
}

func second(_ record, err error) error { return err }

func FuzzDecode(f *testing.F) {
	f.Add(encode([]observe.HotKey{{Key: []byte("k"), Rate: 1, Shards: 1}}, 3))
	f.Add([]byte(`{"v":1,"seq":-1,"keys":[["aw==",1e999,null,{},[],"x",true,0,1]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decode(text)
		if err != nil {
			return
		}
		var sum observe.HotKey
		for i := range r.Keys {
			if !r.Keys[i].valid() {
				t.Fatalf("%q has a key that cannot be", text)
			}
			add(&sum, &r.Keys[i])
		}
		if sum.Admitted < 0 || sum.Denied < 0 || sum.ByFail < 0 {
			t.Fatalf("%q: %+v", text, sum)
		}
	})
}
