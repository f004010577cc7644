package word

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIntegersAreParsedAsByRedis(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-1": -1, "10": 10,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		n, ok := Integer([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, n)
	}
	for _, text := range []string{
		"", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "0x1", "--1", "\x00",
		"9223372036854775808", "-9223372036854775809", "92233720368547758070",
	} {
		_, ok := Integer([]byte(text))
		require.False(t, ok, text)
	}
}

func TestIsIgnoresCase(t *testing.T) {
	for text, want := range map[string]bool{"COST": true, "cost": true, "CoSt": true, "": false, "COS": false, "COSTS": false, "#OST": false} {
		require.Equal(t, want, Is([]byte(text), "COST"), text)
	}
}

func TestLowerNeedsCapacity(t *testing.T) {
	var buf [4]byte
	for text, want := range map[string]string{"": "", "Ab.Z": "ab.z", "@[`{": "@[`{", "É": "É"} {
		low, ok := Lower(buf[:0], []byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, string(low))
	}
	_, ok := Lower(buf[:0], []byte("abcde"))
	require.False(t, ok)
}

func TestPrintableRefusesSpacesAndControlBytes(t *testing.T) {
	for text, want := range map[string]bool{"": true, "!a~": true, "a b": false, "a\n": false, "\x7f": false, "é": false} {
		require.Equal(t, want, Printable(text), text)
		require.Equal(t, want, Printable([]byte(text)), text)
	}
}

func TestQuoteCutsAtNULAndAtItsBound(t *testing.T) {
	require.Equal(t, "a", string(Quote([]byte("a\x00b"))))
	require.Equal(t, strings.Repeat("n", Quoted), string(Quote([]byte(strings.Repeat("n", Quoted+1)))))
	require.Equal(t, "ab", string(Cut([]byte("abc"), 2)))
}

func TestNothingAllocates(t *testing.T) {
	text := []byte("9223372036854775807")
	var buf [32]byte
	require.Zero(t, testing.AllocsPerRun(100, func() {
		Is(text, "COST")
		Integer(text)
		Lower(buf[:0], text)
		Printable(text)
		Quote(text)
	}))
}

func TestListJoinsWordsAsInASentence(t *testing.T) {
	require.Equal(t, "a", List([]string{"a"}))
	require.Equal(t, "a or b", List([]string{"a", "b"}))
	require.Equal(t, "a, b or c", List([]string{"a", "b", "c"}))
}
