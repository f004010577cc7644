package shard

// Spread appends to dst n part numbers for a key on a Redis Cluster, the home's 0 first,
// chosen so that the parts lie on different masters as long as there are any, and
// evenly after that. owner names the master of a slot, from 0 to masters-1.
//
// A part number is part of a stored key's name and so of its slot: other numbers, other
// masters. The layout keeps the numbers, so a master more moves no part.
func Spread(dst []int, key []byte, n, masters int, owner func(slot int) int) []int {
	parts := make([]int, masters) // on each master
	stored := make([]byte, 0, len(key)+16)
	each := 1 // parts that a master may have
	for number, found, tried := 0, 0, 0; found < n; number++ {
		stored = AppendStoredKey(stored[:0], key, number)
		m := owner(Slot(stored))
		if tried++; tried > 64*masters {
			each, tried = each+1, 0 // a master with hardly any slots
		}
		if number > 0 && parts[m] >= each {
			continue
		}
		parts[m]++
		dst = append(dst, number)
		if found++; found == each*masters {
			each, tried = each+1, 0
		}
	}
	return dst
}
