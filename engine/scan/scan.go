// Package scan finds the keys that have state on the nodes of a fleet. It asks one node after the other, with SCAN,
// outside their queues, and maps what is stored to the keys of clients.
package scan

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/shard"
)

// step is the most stored keys that a node visits at once, in a fraction of a ms.
const step = 250

// NodeKeys implements engine.KeyLister for the nodes of a fleet.
type NodeKeys struct{ Fleet *backend.Fleet }

// cursor is where a scan goes on. Its text has its fields, with a - between them.
type cursor struct {
	at    uint64 // the node's own cursor
	addr  uint32 // a checksum of the node's address: another node at the place has other cursors
	place string // of the node, see backend.Topology.Places
}

func (c *cursor) String() string { return fmt.Sprintf("%d-%x-%s", c.at, c.addr, c.place) }

func parse(text string) (c cursor, ok bool) {
	if text == "0" {
		return c, true
	}
	fields := strings.SplitN(text, "-", 3)
	if len(fields) < 3 || fields[2] == "" {
		return c, false
	}
	at, err := strconv.ParseUint(fields[0], 10, 64)
	addr, err2 := strconv.ParseUint(fields[1], 16, 32)
	return cursor{at, uint32(addr), fields[2]}, err == nil && err2 == nil // #nosec G115 -- 32 bits
}

func checksum(n *backend.Node) uint32 { return crc32.ChecksumIEEE([]byte(n.Name())) }

// Scan implements engine.KeyLister. The order of the nodes does not depend on the list of backends. If the node of a
// cursor is no longer there, the scan goes on with the node in its place, from its beginning, or with the next one.
func (x NodeKeys) Scan(from string, visits int, found func(name []byte)) (next string, err error) {
	c, ok := parse(from)
	if !ok {
		return "", engine.ErrCursor
	}
	top := x.Fleet.Topology()
	places := top.Places()
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(places[i], places[j]) })
	i := slices.IndexFunc(order, func(i int) bool { return c.addr != 0 && checksum(top.Nodes[i]) == c.addr })
	if i < 0 { // another node, or another list
		c.at = 0
		i = slices.IndexFunc(order, func(i int) bool { return places[i] >= c.place })
	}
	for ; 0 <= i && i < len(order); i++ {
		for visits > 0 {
			n := min(visits, step)
			if c.at, err = visit(top, order[i], c.at, n, found); err != nil {
				return "", err
			}
			if visits -= n; c.at == 0 {
				break
			}
		}
		if c.at > 0 || visits <= 0 && i+1 < len(order) {
			if c.at == 0 {
				i++
			}
			c.addr, c.place = checksum(top.Nodes[order[i]]), places[order[i]]
			return c.String(), nil
		}
	}
	return "0", nil
}

// visit visits n stored keys of a node from its cursor on, and returns the next cursor.
func visit(top *backend.Topology, node int, at uint64, n int, found func(name []byte)) (next uint64, err error) {
	of := top.Nodes[node]
	if of.Client() == nil || of.Down() {
		return 0, &engine.Unavailable{Node: of.Name(), Why: of.Reason()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), of.Timeout())
	defer cancel()
	stored, next, err := of.Client().Scan(ctx, at, "rl:{*", int64(n)).Result()
	if err != nil {
		if backend.Failed(err) {
			of.Record(err)
		}
		return 0, &engine.Unavailable{Node: of.Name(), Why: backend.Reason(err)}
	}
	var buf []byte
	for _, key := range stored {
		if name, ok := nameOf(buf[:0], []byte(key), top, node); ok {
			found(name)
			buf = name
		}
	}
	return next, nil
}

// nameOf appends the name of the key that has state in a stored key of a node. ok is false for what rlproxy stores for
// itself, and for what a proxy with another list of nodes has left: no request finds it there.
func nameOf(dst, stored []byte, top *backend.Topology, node int) (name []byte, ok bool) {
	end := bytes.LastIndexByte(stored, '}') + 1
	if suffix := string(stored[end:]); suffix != "" && suffix != "%i" { // the ids of the key
		return dst, false
	}
	name, number, ok := shard.ParseStoredKey(dst, stored[:end])
	return name, ok && top.Locate(name, number) == node
}
