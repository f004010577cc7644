package shard

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoredKey(t *testing.T) {
	for _, c := range []struct {
		key   string
		shard int
		want  string
	}{
		{"user:1", 0, "rl:{user:1}"},
		{"user:1", 7, "rl:{user:1%p7}"},
		{"a{b}c", 0, "rl:{a%7Bb%7Dc}"},
		{"100%", 12, "rl:{100%25%p12}"},
		{"x%p3", 0, "rl:{x%25p3}"},
		{"%7B", 0, "rl:{%257B}"},
		{"\x00\r\n\xff", 1, "rl:{\x00\r\n\xff%p1}"},
	} {
		got := AppendStoredKey([]byte("+"), []byte(c.key), c.shard)
		require.Equal(t, "+"+c.want, string(got))
		key, shard, ok := ParseStoredKey([]byte("+"), got[1:])
		require.True(t, ok)
		require.Equal(t, "+"+c.key, string(key))
		require.Equal(t, c.shard, shard)
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

// Every name that is written can be parsed, and every name that parses would be written just so.
func FuzzStoredKey(f *testing.F) {
	f.Add([]byte("a{b}%p1"), 3)
	f.Add([]byte("rl:{a%p7}"), 0)
	f.Fuzz(func(t *testing.T, key []byte, shard int) {
		shard &= 1<<20 - 1
		stored := AppendStoredKey(nil, key, shard)
		gotKey, gotShard, ok := ParseStoredKey(nil, stored)
		if !ok || gotShard != shard || !bytes.Equal(gotKey, key) {
			t.Fatalf("shard %d of %q is stored as %q, which parses as shard %d of %q, %v", shard, key, stored, gotShard, gotKey, ok)
		}
		if bytes.ContainsAny(stored[len(keyPrefix):len(stored)-1], "{}") {
			t.Fatalf("%q: the hash tag of %q ends early", key, stored)
		}
		if k, p, ok := ParseStoredKey(nil, key); ok && !bytes.Equal(AppendStoredKey(nil, k, p), key) {
			t.Fatalf("%q parses as shard %d of %q, which is stored under another name", key, p, k)
		}
	})
}

func TestStoredKeyAllocatesNothing(t *testing.T) {
	dst, key := make([]byte, 0, 64), []byte("user{1}")
	require.Zero(t, testing.AllocsPerRun(100, func() { dst = AppendStoredKey(dst[:0], key, 3) }))
}
