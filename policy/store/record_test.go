package store

import (
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/policy"
)

func TestRecordIsDecodedAsItWasEncoded(t *testing.T) {
	for _, r := range []record{{1, ""}, {1<<63 - 1, "policy api SLIDE 100 60\n"}, {7, strings.Repeat("x", policy.MaxText)}} {
		line, whole := r.encode()
		require.LessOrEqual(t, len(line), maxLine)
		require.Equal(t, line, firstLine(whole))
		got, gotLine, err := decode(whole)
		require.NoError(t, err)
		require.Equal(t, line, gotLine)
		require.Equal(t, r, got)
	}
}

func TestOnlyRecordsAreDecoded(t *testing.T) {
	text := "policy api SLIDE 100 60\n"
	line, whole := record{12, text}.encode()
	notOurs := "instead of the first line of stored policies"
	for stored, want := range map[string]string{
		"":                  notOurs,
		"\n":                notOurs,
		line[:len(line)-1]:  notOurs,
		" " + string(whole): notOurs,
		strings.Replace(string(whole), " 12 ", " 012 ", 1):                               notOurs,
		strings.Replace(string(whole), " 12 ", " -12 ", 1):                               notOurs,
		strings.Replace(string(whole), " 12 ", " 0 ", 1):                                 notOurs,
		strings.Replace(string(whole), " 12 ", " 99999999999999999999 ", 1):              notOurs,
		strings.ToUpper(string(whole)):                                                   notOurs,
		strings.Repeat("\x00\xff", 100):                                                  "it begins with '\\x00",
		header(0, 12, xxhash.Sum64String(text)) + text:                                   notOurs,
		header(2, 12, xxhash.Sum64String(text)) + text:                                   "it has format 2, but this version of rlproxy knows only format 1",
		"rlproxy-policies 2 and whatever else":                                           "it has format 2",
		string(whole) + "x":                                                              "its text does not match the checksum",
		string(whole[:len(whole)-1]):                                                     "its text does not match the checksum",
		strings.Replace(string(whole), "100", "900", 1):                                  "its text does not match the checksum",
		header(1, 12, xxhash.Sum64String(text)+1) + text:                                 "its text does not match the checksum",
		header(1, 12, xxhash.Sum64String(text)) + strings.Repeat("x", policy.MaxText+20): "its text is longer than 8388608 bytes",
	} {
		_, line, err := decode([]byte(stored))
		require.LessOrEqual(t, len(line), maxLine, "%.80q", stored)
		require.ErrorAs(t, err, new(damage), "%.80q", stored)
		require.ErrorContains(t, err, want, "%.80q", stored)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzDecode(f *testing.F) {
	_, whole := record{12, "policy api SLIDE 100 60\n"}.encode()
	f.Add(whole)
	f.Add([]byte("rlproxy-policies 2 12 0\n"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		r, line, err := decode(stored)
		require.LessOrEqual(t, len(line), maxLine)
		if err != nil {
			return
		}
		gotLine, again := r.encode()
		require.Equal(t, line, gotLine)
		require.Equal(t, stored, again)
	})
}
