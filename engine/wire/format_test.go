package wire

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The formats of packed messages are the same in Lua.
func TestFormatsAreTheSameInLua(t *testing.T) {
	text, err := os.ReadFile("../../lua/messages.lua")
	require.NoError(t, err)
	inLua := map[string]format{}
	for _, found := range regexp.MustCompile(`([A-Z]+) = '(>\w+)'`).FindAllStringSubmatch(string(text), -1) {
		inLua[found[1]] = format(found[2])
	}
	require.Equal(t, map[string]format{
		"ID": formatID, "HOLD": formatHOLD, "SETTLE": formatSETTLE, "SETTLED": formatSETTLED,
		"RENEW": formatRENEW, "RENEWED": formatRENEWED,
	}, inLua)
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
