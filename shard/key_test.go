package shard

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoredKeysAreFormattedAndParsed(t *testing.T) {
	for _, c := range []struct {
		key   string
		shard int
		want  string
	}{
		{"user:1", 0, "rl:{user:1}"},
		{"user:1", 7, "rl:{user:1%p7}"},
		{"a{b}c", 0, "rl:{a%7Bb%7Dc}"},
		{"", 1, "rl:{%p1}"},
		{"100%", 12, "rl:{100%25%p12}"},
		{"a", 190, "rl:{a%p190}"},
		{"a", 999_999_999, "rl:{a%p999999999}"},
		{"x%p3", 0, "rl:{x%25p3}"},
		{"%7B", 0, "rl:{%257B}"},
		{"\x00\r\n\xff", 1, "rl:{\x00\r\n\xff%p1}"},
		{"a\xffk", 0, "rl:{a\xffk}"},
		{"a\xffs", 2, "rl:{a\xffs%p2}"},
		{"user:1%s", 0, "rl:{user:1%25s}"},
	} {
		name := AppendName(nil, []byte(c.key), false)

		got := AppendStoredKey([]byte("+"), name, c.shard)
		require.Equal(t, "+"+c.want, string(got))
		parsed, shard, ok := ParseStoredKey([]byte("+"), got[1:])
		require.True(t, ok)
		require.Equal(t, "+"+string(name), string(parsed))
		require.Equal(t, c.shard, shard)
	}
}

func TestStoredKeysOfShadowsAreFormattedAndParsed(t *testing.T) {
	for _, c := range []struct {
		key   string
		shard int
		want  string
	}{
		{"user:1", 0, "rl:{user:1%s}"},
		{"user:1", 7, "rl:{user:1%s%p7}"},
		{"100%", 0, "rl:{100%25%s}"},
		{"a%s", 3, "rl:{a%25s%s%p3}"},
		{"a\xffs", 0, "rl:{a\xffs%s}"},
	} {
		name := AppendName(nil, []byte(c.key), true)
		got := AppendStoredKey(nil, name, c.shard)
		require.Equal(t, c.want, string(got))
		parsed, shard, ok := ParseStoredKey(nil, got)
		require.True(t, ok)
		require.Equal(t, string(name), string(parsed))
		require.Equal(t, c.shard, shard)
	}
}

func TestInvalidStoredKeysAreRefused(t *testing.T) {
	for _, stored := range []string{
		"", "rl:", "rl:{", "rl:{a", "a}", "rl:{a}x", "xrl:{a}", "rl:{a{}", "rl:{a}}", "rl:{%}", "rl:{%7}", "rl:{%7b}",
		"rl:{%41}", "rl:{a%p}", "rl:{a%p0}", "rl:{a%p01}", "rl:{a%p-1}", "rl:{a%p1x}", "rl:{a%p1234567890}",
		"rl:{a%s%s}", "rl:{a%p1%s}", "rl:{a%p1%p2}", "rl:{a%S}", "rl:{a%sx}", "rl:{%7%p1}", "rl:{a%s{}",
	} {
		dst := []byte("kept")
		got, _, ok := ParseStoredKey(dst, []byte(stored))
		require.False(t, ok, "%q", stored)
		require.Equal(t, "kept", string(got))
	}
}

// ParseStoredKey accepts exactly the stored keys that AppendStoredKey produces.
func FuzzStoredKey(f *testing.F) {
	f.Add([]byte("a{b}%p1"), false, 3)
	f.Add([]byte("rl:{a%p7}"), false, 0)
	f.Add([]byte("rl:{a%s%p7}"), true, 1)
	f.Add([]byte("rl:{a\xffs%s}"), true, 1)
	f.Fuzz(func(t *testing.T, key []byte, shadow bool, shard int) {
		shard &= 1<<20 - 1
		name := AppendName(nil, key, shadow)
		stored := AppendStoredKey(nil, name, shard)
		gotName, gotShard, ok := ParseStoredKey(nil, stored)
		if !ok || gotShard != shard || !bytes.Equal(gotName, name) {
			t.Fatalf("shard %d of %q is stored as %q, which parses as shard %d of %q, %v", shard, name, stored, gotShard, gotName, ok)
		}
		if bytes.ContainsAny(stored[len(keyPrefix):len(stored)-1], "{}") {
			t.Fatalf("%q: the hash tag of %q ends early", name, stored)
		}
		if n, p, ok := ParseStoredKey(nil, key); ok && !bytes.Equal(AppendStoredKey(nil, n, p), key) {
			t.Fatalf("%q parses as shard %d of %q, which is stored as another key", key, p, n)
		}
	})
}

func TestStoredKeyAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 64)
	for _, name := range []string{"user{1}", "user{1}\xffs"} {
		name := []byte(name)
		require.Zero(t, testing.AllocsPerRun(100, func() { dst = AppendStoredKey(dst[:0], name, 3) }))
	}
}
