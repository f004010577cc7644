package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// 12739 (0x31C3) is the check value of CRC16/XMODEM.
func TestSlotIsTheCRC16OfTheHashTag(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":            12739,
		"":                     0,
		"foo":                  12182,
		"{user1000}.following": Slot([]byte("user1000")),
		"foo{}{bar}":           8363, // With an empty tag the whole key counts.
		"foo{{bar}}zap":        Slot([]byte("{bar")),
		"foo{bar}{zap}":        Slot([]byte("bar")),
		"foo{bar":              Slot([]byte("foo{bar")) % Slots,
	} {
		require.Equal(t, want, Slot([]byte(key)), "key %q", key)
	}
}

// Slot returns what CLUSTER KEYSLOT of a real server returns, for stored keys and for arbitrary bytes.
func TestSlotAgreesWithRedis(t *testing.T) {
	conn := startCluster(t)
	rng := rand.New(rand.NewPCG(1, 2))
	keys := [][]byte{[]byte("{"), []byte("}"), []byte("{}"), []byte("}{a}"), []byte("a{}b{c}")}
	for i := range 400 {
		key := make([]byte, 1+rng.IntN(24))
		for j := range key {
			key[j] = "{}%ab\x00\xff"[rng.IntN(7)]
		}
		keys = append(keys, key, AppendStoredKey(nil, key, i%5))
	}
	for _, key := range keys {
		require.Equal(t, keySlot(t, conn, key), Slot(key), "key %q", key)
	}
}
