package shard

import "strconv"

// Spread appends to dst the numbers of n shards of the named key in a Redis Cluster, in ascending order. The first is
// the home, 0. The numbers are chosen so that each master gets one shard before any gets a second one, and so on. owner
// returns the master of a slot, from 0 to masters-1.
//
// The number of a shard is part of the name of its stored key, and so determines its slot: with another number the
// shard may be on another master.
func Spread(dst []int, name []byte, n, masters int, owner func(slot int) int) []int {
	shards := make([]int, masters) // Number of shards on each master.
	// The tags of all shards but the home differ only in the number at the end.
	begin := Tag(AppendStoredKey(nil, name, 1))
	crc := crc16(0, begin[:len(begin)-1])
	var digits [20]byte
	most := 1 // Shards that each master may have for now.
	for number, found, tried := 0, 0, 0; found < n; number++ {
		slot := int(crc16(crc, strconv.AppendInt(digits[:0], int64(number), 10))) % Slots
		if number == 0 {
			slot = Slot(AppendStoredKey(nil, name, 0))
		}
		m := owner(slot)
		if tried++; tried > 64*masters {
			most, tried = most+1, 0 // Some master has hardly any slots. Stop searching for them.
		}
		if shards[m] >= most {
			continue
		}
		shards[m]++
		dst = append(dst, number)
		if found++; found == most*masters {
			most, tried = most+1, 0
		}
	}
	return dst
}
