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
	at      uint64 // the node's own cursor
	process uint32 // a checksum of the node's address and process: others have other cursors
	place   string // of the node, see backend.Topology.Places
}

func (c *cursor) String() string { return fmt.Sprintf("%d-%x-%s", c.at, c.process, c.place) }

func parse(text string) (c cursor, ok bool) {
	if text == "0" {
		return c, true
	}
	fields := strings.SplitN(text, "-", 3)
	if len(fields) < 3 || fields[2] == "" {
		return c, false
	}
	at, err := strconv.ParseUint(fields[0], 10, 64)
	process, err2 := strconv.ParseUint(fields[1], 16, 32)
	return cursor{at, uint32(process), fields[2]}, err == nil && err2 == nil // #nosec G115 -- 32 bits
}

// Scan implements engine.KeyLister. The order of the nodes does not depend on the list of backends. If the node of a
// cursor is no longer in the list, the scan goes on with the next one. If another process has taken its place, after a
// failover or a restart, the scan begins there anew.
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
	i := slices.IndexFunc(order, func(i int) bool { return places[i] >= c.place })
	if i < 0 || places[order[i]] != c.place {
		if c.at = 0; c.place != "" && top.Clustered() {
			return "", engine.ErrMoved
		}
	}
	for ; 0 <= i && i < len(order); i++ {
		for visits > 0 {
			n := min(visits, step)
			if err = c.visit(top, order[i], n, found); err != nil {
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
			c.place = places[order[i]]
			return c.String(), nil
		}
	}
	return "0", nil
}

// visit visits n stored keys of a node from the cursor on, which it moves.
func (c *cursor) visit(top *backend.Topology, node int, n int, found func(name []byte)) error {
	of := top.Nodes[node]
	if of.Client() == nil || of.Down() {
		return &engine.Unavailable{Node: of.Name(), Why: of.Reason()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), of.Timeout())
	defer cancel()
	ask := of.Client().Pipeline()
	info, keys := ask.Info(ctx, "server"), ask.Scan(ctx, c.at, "rl:{*", int64(n))
	_, _ = ask.Exec(ctx) // each has its own error; that of info is why the process is not known
	stored, next, err := keys.Result()
	if err != nil {
		if backend.Failed(err) {
			of.Record(err)
		}
		return &engine.Unavailable{Node: of.Name(), Why: backend.Reason(err)}
	}
	_, run, _ := strings.Cut(info.Val(), "\nrun_id:")
	run, _, _ = strings.Cut(run, "\r")
	was := *c
	c.at, c.process = next, crc32.ChecksumIEEE([]byte(of.Name()+" "+run))
	if was.at > 0 && was.process != c.process {
		c.at = 0
		return c.visit(top, node, n, found)
	}
	var buf []byte
	for _, key := range stored {
		if name, ok := nameOf(buf[:0], []byte(key), top, node); ok {
			found(name)
			buf = name
		}
	}
	return nil
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
