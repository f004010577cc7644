package engine

import "github.com/rlproxy/rlproxy/shard"

// topology says which nodes there are and on which of them a key lies. It never
// changes: who learns better puts another in its place.
type topology struct {
	nodes []*node
	place *shard.Nodes         // over the backends' names; nil for a cluster, which has
	slots *[shard.Slots]uint16 // the index in nodes of each slot's master
}

// locate returns the index of the node on which a part of key lies.
func (t *topology) locate(key []byte, part int) int {
	switch {
	case t.slots != nil:
		var buf [256]byte
		return int(t.slots[shard.Slot(shard.AppendStoredKey(buf[:0], key, part))])
	case len(t.nodes) == 1:
		return 0
	case part == 0:
		return t.place.Home(key)
	}
	var buf [16]int
	return t.place.Order(key, buf[:0])[part%len(t.nodes)]
}
