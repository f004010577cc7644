package wire

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

func TestEqualRequestsShareAnEntry(t *testing.T) {
	var c Call
	add := func(r engine.Request) int {
		at, ok := c.Add(&r, 0)
		require.True(t, ok)
		return at
	}
	require.Equal(t, 0, add(slide("a", 10)))
	require.Equal(t, 1, add(slide("b", 10)))
	require.Equal(t, 0, add(slide("a", 10)), "another key came between")
	require.Equal(t, 2, add(slide("a", 11)), "another spec")
	require.Equal(t, 3, add(slide("a", 10)), "only the latest entry of a key may take one more")
	require.Equal(t, 4, c.Len())
	require.Len(t, c.specs, 2)
}

func TestResetsHaveCallsOfTheirOwn(t *testing.T) {
	var c Call
	for _, requests := range [][]engine.Request{{conformance.Reset("a"), slide("b", 10)}, {slide("b", 10), conformance.Reset("a")}} {
		c.Reset()
		for range 2 {
			_, ok := c.Add(&requests[0], 0)
			require.True(t, ok)
		}
		was := c.Len()
		_, ok := c.Add(&requests[1], 0)
		require.False(t, ok)
		require.Equal(t, was, c.Len())
		require.Len(t, c.keys, c.entries[was-1].keyTo, "nothing is kept of the other key")
	}
	c.Reset()
	reset := conformance.Reset("a")
	for i := range 2 {
		at, ok := c.Add(&reset, 0)
		require.True(t, ok)
		require.Equal(t, i, at, "each reset has an entry of its own")
	}
}

func TestShardsOfAKeyHaveEntriesOfTheirOwn(t *testing.T) {
	var c Call
	r := slide("a", 10)
	for number := range 3 {
		at, ok := c.Add(&r, number)
		require.True(t, ok)
		require.Equal(t, number, at)
	}
	require.True(t, c.About([]byte("a"), 0))
	require.False(t, c.About([]byte("a"), 1))
	require.Equal(t, []string{"rl:{a}", "rl:{a%p1}", "rl:{a%p2}"}, argsOf(c.Args("", false, false))[3:6])
}

func TestAFullCallTakesNoOtherKey(t *testing.T) {
	var c Call
	for i := range MaxEntries {
		r := slide(fmt.Sprint(i), 10)
		_, ok := c.Add(&r, 0)
		require.True(t, ok)
	}
	other := slide("other", 10)
	_, ok := c.Add(&other, 0)
	require.False(t, ok)
	require.Len(t, c.keys, c.entries[MaxEntries-1].keyTo, "nothing is kept of the other key")
	again := slide("7", 10)
	at, ok := c.Add(&again, 0)
	require.True(t, ok, "an equal request needs no entry of its own")
	require.Equal(t, 7, at)
}

func TestArgs(t *testing.T) {
	strict := conformance.Request(limit.Counter, "k", 100, 60_000)
	strict.Manner, strict.Param, strict.Cost = limit.Strict, 6, 2
	packed := string(bytesOf(6, 2, 1, flagStrict, 1, 2, 5, 6, 5, 60_000, 5, 100))
	for name, tt := range map[string]struct {
		call            *Call
		apart, scripted bool
		want            []string
	}{
		"one request":     {call: call(0, strict), want: []string{"fcall", lua.Decide.Name, "\x01", "rl:{k}", "7", "", packed}},
		"as a script":     {call: call(0, strict), scripted: true, want: []string{"evalsha", lua.Script.SHA, "\x01", "rl:{k}", "decide", "7", "", packed}},
		"combined":        {call: call(0, strict, strict), want: []string{"fcall", lua.Decide.Name, "\x01", "rl:{k}", "7", string(bytesOf(2, 3, 4, 2)), packed}},
		"one key, apart":  {call: call(0, strict), apart: true, want: []string{"fcall", lua.Decide.Name, "\x01", "rl:{k}", "7", "", packed}},
		"two keys, apart": {call: call(0, slide("a", 5), slide("b", 5)), apart: true, want: []string{"fcall", lua.Decide.Name, "\x00", "7", "", string(bytesOf(6, 1, 1, 0, 1, 1, 5, 1, 5, 1000, 5, 5)), "rl:{a}", "rl:{b}"}},
		"a reset":         {call: call(0, conformance.Reset("k")), want: []string{"fcall", lua.Reset.Name, "\x01", "rl:{k}", "7", "", string(bytesOf(6, 0, 1, 0, 1, kindReset, 5, 0))}},
		"at a shard":      {call: call(3, slide("k", 5)), want: []string{"fcall", lua.Decide.Name, "\x01", "rl:{k%p3}", "7", "", string(bytesOf(6, 1, 1, flagAtShard, 1, 1, 5, 1, 5, 1000, 5, 5))}},
		"CL.THROTTLE":     {call: call(0, conformance.Throttle("k", 15, 30, 60, 1)), want: []string{"fcall", lua.Decide.Name, "\x01", "rl:{k}", "7", "", string(bytesOf(6, 1, 1, 0, 1, 4, 5, 0, 8, 2_000_000_000, 8, 16))}},
		"different specs": {call: call(0, slide("a", 5), slide("b", 6)), want: []string{"fcall", lua.Decide.Name, "\x02", "rl:{a}", "rl:{b}", "7", string(bytesOf(2, 3, 4, 1, 2, 4, 4, 1)), string(bytesOf(6, 1, 1, 0, 1, 1, 5, 1, 5, 1000, 5, 5)), string(bytesOf(6, 1, 1, 0, 1, 1, 5, 1, 5, 1000, 5, 6))}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, argsOf(tt.call.Args("7", tt.apart, tt.scripted)))
		})
	}
}

func TestAResetCallIsAsANewOne(t *testing.T) {
	requests := []engine.Request{slide("a", 10), slide("a", 10), slide("b", 5)}
	want := argsOf(call(0, requests...).Args("7", false, false))
	var c Call
	for range 2 {
		c.Reset()
		for i := range requests {
			c.Add(&requests[i], 0)
		}
		require.Equal(t, want, argsOf(c.Args("7", false, false)))
		require.Equal(t, "rl:{a}rl:{b}", string(c.keys), "equal requests share one")
	}
	for i := range MaxEntries {
		r := slide(fmt.Sprintf("%04000d", i), 10)
		c.Add(&r, 0)
	}
	c.Reset()
	require.LessOrEqual(t, cap(c.keys), keepKeys)
}

// A reused call allocates only the strings that go-redis gets.
func TestCallAllocations(t *testing.T) {
	r := slide("user:42", 10)
	var c Call
	allocs := testing.AllocsPerRun(1000, func() {
		c.Reset()
		for range 16 {
			c.Add(&r, 0)
		}
		c.Args("", false, false)
	})
	require.LessOrEqual(t, allocs, 4.0)
}

// Two specs that differ in any field are packed differently, and unpacked as they were.
func TestEveryFieldOfASpecIsSent(t *testing.T) {
	r := reserve()
	base := limit.Spec{Kind: limit.Counter, N: 1, Cost: 3, Param: 6}
	base.Windows = [limit.MaxWindows]limit.Window{{Limit: 20, Length: 1000}, {Limit: 30, Length: 2000}}
	packed := func(s limit.Spec) string {
		sent := spec{Spec: s}
		return string(sent.append(nil))
	}
	for i := range reflect.TypeFor[limit.Spec]().NumField() {
		s := base
		field, name := reflect.ValueOf(&s).Elem().Field(i), reflect.TypeFor[limit.Spec]().Field(i).Name
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Uint8: // the kind
			field.SetUint(field.Uint() + 1)
			s.Param = 1
		case reflect.Array:
			s.Windows[0].Limit++
		default:
			field.SetInt(field.Int() + 1)
		}
		if name == "Clock" {
			continue // a node has its own
		}
		require.NotEqual(t, packed(base), packed(s), name)
		if s.Kind.Rated() {
			continue // a rate is never unpacked: CL.THROTTLE has no ids
		}
		if s.N == 1 {
			s.Windows[1] = limit.Window{}
		}
		got, err := decodeSpec(packed(s), &r)
		require.NoError(t, err, name)
		require.Equal(t, s, got, name)
	}
}

// Only a spec that a client can have sent is that of the first request with an id.
func TestDecodeSpecOfTheFirstRequest(t *testing.T) {
	r := reserve()
	spec := func(cost, flags int64, kind limit.Kind, buckets, length, most int64) string {
		return join(bytesOf(6, cost, 1, flags, 1, int64(kind), 5, buckets, 5, length, 5, most))
	}
	got, err := decodeSpec(spec(3, flagStrict, limit.Counter, 6, 1000, 20), &r)
	require.NoError(t, err)
	want := limit.Spec{Cost: 3, Manner: limit.Strict, Kind: limit.Counter, Param: 6, N: 1}
	want.Windows[0] = limit.Window{Limit: 20, Length: 1000}
	require.Equal(t, want, got)
	got, err = decodeSpec(spec(1, 0, limit.Fixed, 1, limit.MaxWindow, limit.MaxLimit), &r)
	require.NoError(t, err)
	require.False(t, got.Strict())
	for name, text := range map[string]string{
		"no cost":                       spec(0, 0, limit.Slide, 1, 1000, 20),
		"no buckets":                    spec(3, 0, limit.Slide, 0, 1000, 20),
		"an unknown kind":               spec(3, 0, 77, 1, 1000, 20),
		"a rate":                        spec(3, 0, limit.GCRA, 1, 1000, 20),
		"slots":                         spec(3, 0, limit.Concurrency, 1, 0, 20),
		"no limit":                      spec(3, 0, limit.Slide, 1, 1000, 0),
		"a limit that is too high":      spec(3, 0, limit.Slide, 1, 1000, limit.MaxLimit+1),
		"no window":                     spec(3, 0, limit.Slide, 1, 0, 20),
		"a window that is too long":     spec(3, 0, limit.Slide, 1, limit.MaxWindow+1, 20),
		"more buckets than ms":          spec(3, 0, limit.Counter, 6, 5, 20),
		"too many buckets":              spec(3, 0, limit.Counter, limit.MaxBuckets+1, 60_000, 20),
		"a second window without limit": spec(3, 0, limit.Slide, 1, 1000, 20) + join(bytesOf(5, 2000, 5, 0)),
	} {
		_, err := decodeSpec(text, &r)
		require.ErrorIs(t, err, errInconsistent, name)
	}
}
