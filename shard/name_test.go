package shard

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// oddEnds are endings with which a key looks like a name with a mark, or nearly does.
var oddEnds = []string{"", "k", "s", "\xff", "\xffk", "\xffs", "\xffK", "\xff\xffs", "\xffk\xffs", "\xffs\xffk", "\xffs\xffs", "s\xff", "%s"}

func TestNamesOfKeysAndShadowsDiffer(t *testing.T) {
	type client struct {
		key    string
		shadow bool
	}
	owner, clients := make(map[string]client), make(map[client]bool)
	for _, begin := range []string{"", "a", "user:1", "\xff"} {
		for _, end := range oddEnds {
			for _, c := range []client{{begin + end, false}, {begin + end, true}} {
				name := AppendName(nil, []byte(c.key), c.shadow)
				if other, taken := owner[string(name)]; taken {
					require.Equal(t, c, other, "%q is the name of both", name)
				}
				owner[string(name)], clients[c] = c, true
			}
		}
	}
	require.Len(t, owner, len(clients))
}

// The name decides the placement and the stored key, so names must not change between versions.
func TestKeysWithoutAMarkAreTheirOwnNames(t *testing.T) {
	for _, key := range []string{"user:1", "s", "\xff", "a\xff", "a\xffS", "\xffs ", "héllo", "a%s"} {
		require.Equal(t, "+"+key, string(AppendName([]byte("+"), []byte(key), false)))
		require.Equal(t, "+"+key+"\xffs", string(AppendName([]byte("+"), []byte(key), true)))
	}
	for _, key := range []string{"\xffs", "a\xffk"} {
		require.Equal(t, key+"\xffk", string(AppendName(nil, []byte(key), false)))
	}
}

// Two keys or shadows have the same name only if they are the same, and ClientKey returns from
// a name what AppendName was given.
func FuzzName(f *testing.F) {
	for _, end := range oddEnds {
		f.Add([]byte("a"+end), true, []byte("a"), false)
		f.Add([]byte(end), false, []byte("\xffs"), true)
	}
	f.Fuzz(func(t *testing.T, key []byte, shadow bool, other []byte, otherShadow bool) {
		name := AppendName(nil, key, shadow)
		if got, of := ClientKey(name); !bytes.Equal(got, key) || of != shadow {
			t.Fatalf("%q, shadow %v, has the name %q, which is that of %q, shadow %v", key, shadow, name, got, of)
		}
		same := bytes.Equal(key, other) && shadow == otherShadow
		if bytes.Equal(name, AppendName(nil, other, otherShadow)) != same {
			t.Fatalf("%q is the name of %q, shadow %v, and of %q, shadow %v", name, key, shadow, other, otherShadow)
		}
		for number := range 2 {
			stored := AppendStoredKey(nil, name, number)
			if bytes.Equal(stored, AppendStoredKey(nil, AppendName(nil, other, otherShadow), number)) != same {
				t.Fatalf("%q is stored for %q, shadow %v, and for %q, shadow %v", stored, key, shadow, other, otherShadow)
			}
		}
	})
}
