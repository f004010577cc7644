package chaos

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// slotOf is the slot of a client's key: CRC-16, as Redis Cluster's specification has
// it, of what stands between the braces of the stored key.
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

// everySlot returns a key for each slot; with the race detector, which takes so much
// longer, for an eighth of them.
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

func TestSlotOf(t *testing.T) {
	c := redistest.StartCluster(t, 1, nil)
	for _, key := range []string{"slide", "round:1", "x"} {
		require.Equal(t, c.Nodes[0].Do("CLUSTER", "KEYSLOT", "rl:{"+key+"}"), strconv.Itoa(slotOf(key)))
	}
}
