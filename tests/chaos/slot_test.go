package chaos

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// slotOf returns the slot of a client's key: the CRC-16 of the Redis Cluster specification
// over the text between the braces of the stored key.
func slotOf(key string) int {
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}

// everySlot returns a key for each slot. With the race detector, which takes much longer, it
// returns keys for an eighth of the slots.
func everySlot() []string {
	keys := make([]string, 16384)
	for i, left := 0, len(keys); left > 0; i++ {
		key := fmt.Sprint("slot:", i)
		if slot := slotOf(key); keys[slot] == "" {
			keys[slot] = key
			left--
		}
	}
	if proxytest.Race {
		return keys[:len(keys)/8]
	}
	return keys
}

// TestSlotsAreThoseOfRedis compares slotOf with CLUSTER KEYSLOT.
func TestSlotsAreThoseOfRedis(t *testing.T) {
	c := redistest.StartCluster(t, 1, nil)
	for _, key := range []string{"slide", "round:1", "x"} {
		require.Equal(t, c.Nodes[0].Do("CLUSTER", "KEYSLOT", "rl:{"+key+"}"), strconv.Itoa(slotOf(key)))
	}
}
