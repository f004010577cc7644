package shard

// Slots is the number of slots in a Redis Cluster.
const Slots = 16384

// Slot returns the Redis Cluster slot of a stored key: the CRC16 of its hash tag, modulo Slots.
func Slot(key []byte) int {
	key = Tag(key)
	crc := uint16(0)
	for _, c := range key {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return int(crc) % Slots
}

// crcTable holds the CRC16/XMODEM of every byte: polynomial 0x1021, initial value 0, not
// reflected.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
