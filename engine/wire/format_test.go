package wire

import (
	"os"
	"regexp"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// inLua returns the formats of packed messages in messages.lua.
func inLua(t *testing.T) map[string]format {
	text, err := os.ReadFile("../../lua/messages.lua")
	require.NoError(t, err)
	formats := map[string]format{}
	for _, found := range regexp.MustCompile(`\b([A-Z]+) = '(>\w+)'`).FindAllStringSubmatch(string(text), -1) {
		formats[found[1]] = format(found[2])
	}
	return formats
}

// The formats of packed messages are the same in Lua.
func TestFormatsAreTheSameInLua(t *testing.T) {
	formats := inLua(t)
	for name, f := range map[string]format{
		"ID": formatID, "HOLD": formatHOLD, "SETTLE": formatSETTLE, "SETTLED": formatSETTLED,
		"RENEW": formatRENEW, "RENEWED": formatRENEWED,
	} {
		require.Equal(t, f, formats[name], name)
	}
}

// Calls of the functions that decide have the formats of Lua.
func TestCallsAreTheSameInLua(t *testing.T) {
	formats := inLua(t)
	pack := func(name string, integers ...int64) string {
		return string(formats[name].append(nil, nil, integers...))
	}
	slide := conformance.Request(limit.Slide, "a", 9, 1000)
	slide.N, slide.Cost, slide.Windows[1] = 2, 3, limit.Window{Limit: 20, Length: 7000}
	throttle := conformance.Throttle("b", 15, 30, 60, 1)
	args := call(2, slide, slide, throttle).Args("", false, false)[5:]
	require.Equal(t, []any{
		pack("ENTRY", 3, 2) + pack("ENTRY", 4, 1),
		pack("SPEC", 3, flagAtShard, 1, 1) + pack("WINDOW", 1000, 9) + pack("WINDOW", 7000, 20),
		pack("SPEC", 1, flagAtShard, 4, throttle.Param) + pack("INTERVAL", throttle.Manner, throttle.Windows[0].Limit),
	}, args[1:])
}

// Replies in the formats of Lua, and in those of the fast path, mean the same.
func TestRepliesAreTheSameInLua(t *testing.T) {
	formats := inLua(t)
	pack := func(name string, integers ...int64) string {
		return string(formats[name].append(nil, nil, integers...))
	}
	const granted, rate, used, empty = 2, 77, 5, clock + 900
	status := func(s Status) string { return pack("STATUS", int64(s)) }
	rated := int64(granted<<24 | rate)
	decided := pack("GRANTED", granted, rate) + pack("USAGE", used, 0, empty)
	denied := pack("GRANTED", granted, rate) + pack("USAGE", used, clock+4, empty)
	for name, both := range map[string][2]string{
		"admitted":  {status(AtNode) + decided, pack("ADMITTED", rated, used, empty)},
		"denied":    {status(AtNode) + denied, pack("DENIED", rated, used, clock+4, empty)},
		"held":      {status(held) + pack("LAPSED", 0) + denied, pack("BESIDE", int64(held), 0, rated, used, clock+4, empty)},
		"home":      {status(AtHome) + pack("HOME", 3, 0) + decided, pack("HOMES", int64(AtHome), 3, 0, rated, used, 0, empty)},
		"shard":     {status(AtShard) + decided + pack("TEXT", 0), pack("SHARDS", int64(AtShard), rated, used, 0, empty, 0)},
		"2 windows": {status(AtNode) + decided + pack("USAGE", 6, 0, empty), pack("SEVERAL", rated) + pack("USED", used, empty) + pack("USED", 6, empty)},
	} {
		require.Equal(t, both[0], both[1], name)
	}

	r := conformance.Request(limit.Slide, "a", 9, 1000)
	reply := pack("CLOCK", clock) + status(AtNode) + decided
	answers, at, err := call(0, r, r).Decode(reply)
	require.NoError(t, err)
	require.EqualValues(t, clock, at)
	require.Equal(t, []Answer{{Requests: 2, Granted: granted, Rate: rate, Usages: []limit.Usage{{Used: used, Empty: 900}}}}, answers)
	answers, _, all, err := DecodeAll(pack("ALL", clock, 0)+status(AtNode)+pack("GRANTED", 1, rate)+pack("USAGE", used, 0, empty), []engine.Request{r})
	require.NoError(t, err)
	require.False(t, all)
	require.EqualValues(t, 1, answers[0].Granted)
	each, err := DecodeEach(pack("EACH", 2)+"ok"+pack("EACH", 1<<15+3)+"ERR", 2)
	require.NoError(t, err)
	require.Equal(t, []Each{{Reply: "ok"}, {Failure: "ERR"}}, each)
	once := r
	once.Hold = &engine.Hold{Once: true}
	first := pack("FIRST", 0, clock) + status(AtNode) + pack("GRANTED", 1, rate) + pack("USAGE", used, 0, empty)
	asked := string(specArg(&once))
	for _, reply := range []string{first, pack("AGAIN", 1) + pack("LENGTH", int64(len(asked))) + asked + first} {
		a, err := DecodeAdmit(reply, &once)
		require.NoError(t, err)
		require.EqualValues(t, clock, a.Clock)
		require.Equal(t, reply != first, a.Again)
	}
}

func TestFormats(t *testing.T) {
	const f format = ">Bc2I10c1I3"
	packed := f.append([]byte{9}, []byte("abc"), 1, 2, 3)
	require.Equal(t, "\x09\x01ab\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02c\x00\x00\x03", string(packed))
	r := reader{s: "\x01\x00\x02\x03"}
	var one, two, more int64
	r.packed(">BI2", &one, &two)
	require.EqualValues(t, []int64{1, 2}, []int64{one, two})
	r.packed(">I2", &more)
	require.True(t, r.bad)
}
