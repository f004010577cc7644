package hotkeys

import (
	"strconv"

	"github.com/rlproxy/rlproxy/engine/backend"
)

// indexKey is the stored key of a node's index. No client's key is stored under this name, as in an escaped key p or
// two hexadecimal digits follow a %. In a Redis Cluster there is one for each board, with the board's number in it.
const indexKey = "rl:{%hotkeys}"

// maxPlaces bounds the number of nodes on which records are looked for.
const maxPlaces = 8

// board is a node on which proxies publish their keys.
type board struct {
	node  *backend.Node
	index string // the stored key of its index
}

// boards returns the boards of a topology, in an order in which all proxies with the same nodes have them.
func boards(top *backend.Topology) []board {
	var found []board
	seen := make(map[int]bool)
	const tries = 1000 // a node with few slots may not be found, nor be needed
	for i := 0; i < tries && len(found) < min(maxPlaces, len(top.Nodes)); i++ {
		name := "rl:{%hotkeys" + strconv.Itoa(i) + "}"
		n, _ := top.LocateStored([]byte(name))
		if seen[n] {
			continue
		}
		seen[n] = true
		if !top.Clustered() {
			name = indexKey // also for proxies that have another list of nodes with this one in it
		}
		found = append(found, board{top.Nodes[n], name})
	}
	return found
}
