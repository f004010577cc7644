package shard

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoredKey(t *testing.T) {
	for _, c := range []struct {
		key  string
		part int
		want string
	}{
		{"user:1", 0, "rl:{user:1}"},
		{"user:1", 7, "rl:{user:1%p7}"},
		{"a{b}c", 0, "rl:{a%7Bb%7Dc}"},
		{"100%", 12, "rl:{100%25%p12}"},
		{"x%p3", 0, "rl:{x%25p3}"},
		{"%7B", 0, "rl:{%257B}"},
		{"\x00\r\n\xff", 1, "rl:{\x00\r\n\xff%p1}"},
	} {
		got := AppendStoredKey([]byte("+"), []byte(c.key), c.part)
		require.Equal(t, "+"+c.want, string(got))
		key, part, ok := ParseStoredKey([]byte("+"), got[1:])
		require.True(t, ok)
		require.Equal(t, "+"+c.key, string(key))
		require.Equal(t, c.part, part)
	}
}

func TestStoredKeyRefused(t *testing.T) {
	for _, stored := range []string{
		"", "rl:", "rl:{", "rl:{a", "a}", "rl:{a}x", "xrl:{a}", "rl:{a{}", "rl:{a}}", "rl:{%}", "rl:{%7}", "rl:{%7b}",
		"rl:{%41}", "rl:{a%p}", "rl:{a%p0}", "rl:{a%p01}", "rl:{a%p-1}", "rl:{a%p1x}", "rl:{a%p1234567890}",
	} {
		dst := []byte("kept")
		got, _, ok := ParseStoredKey(dst, []byte(stored))
		require.False(t, ok, "%q", stored)
		require.Equal(t, "kept", string(got))
	}
}

// Whatever parses is exactly what would be written, and whatever is written parses.
func FuzzStoredKey(f *testing.F) {
	f.Add([]byte("a{b}%p1"), 3)
	f.Add([]byte("rl:{a%p7}"), 0)
	f.Fuzz(func(t *testing.T, key []byte, part int) {
		part &= 1<<20 - 1
		stored := AppendStoredKey(nil, key, part)
		gotKey, gotPart, ok := ParseStoredKey(nil, stored)
		if !ok || gotPart != part || !bytes.Equal(gotKey, key) {
			t.Fatalf("%q part %d is stored as %q, read back as %q part %d %v", key, part, stored, gotKey, gotPart, ok)
		}
		if bytes.ContainsAny(stored[len(keyPrefix):len(stored)-1], "{}") {
			t.Fatalf("%q: the hash tag of %q ends early", key, stored)
		}
		if k, p, ok := ParseStoredKey(nil, key); ok && !bytes.Equal(AppendStoredKey(nil, k, p), key) {
			t.Fatalf("%q parses as %q part %d, which is stored under another name", key, k, p)
		}
	})
}

func TestStoredKeyAllocatesNothing(t *testing.T) {
	dst, key := make([]byte, 0, 64), []byte("user{1}")
	require.Zero(t, testing.AllocsPerRun(100, func() { dst = AppendStoredKey(dst[:0], key, 3) }))
}
