package shard

// Slots is the number of slots in a Redis Cluster.
const Slots = 16384

// Slot returns the Redis Cluster slot of a stored key: the CRC16 of its hash tag, modulo Slots.
func Slot(key []byte) int {
	return int(crc16(0, Tag(key))) % Slots
}

// crc16 returns the CRC of what crc is the CRC of, followed by b.
func crc16(crc uint16, b []byte) uint16 {
	for _, c := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return crc
}

// crcTable holds the CRC16/XMODEM of every byte: polynomial 0x1021, initial value 0, not reflected.
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
