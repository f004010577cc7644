package hotkeys

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// Bounds of an index. The script keeps them.
const (
	maxIndex   = 8 << 10 // bytes
	maxProxies = 64      // also the most whose keys are added up
	maxName    = 32      // bytes of a proxy's name
)

var (
	errUnreachable = errors.New("the node is down")
	errFull        = errors.New("the index has no room for a further proxy")
)

// readOthers returns the newest record of each other proxy. It reads them from the nodes unless
// it did so a moment ago. Callers at the same time share what one of them reads.
func (x *Exchange) readOthers() map[string]record {
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.fleet == nil || x.read != nil && x.now().Sub(x.readAt) < readAgain {
		return x.read
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*x.roundTripTimeout())
	defer cancel()
	newest := make(map[string]record)
	var mu sync.Mutex // guards newest
	var all sync.WaitGroup
	for _, p := range places(x.fleet.Topology()) {
		if !reachable(p.node) {
			continue
		}
		all.Go(func() { // ends with ctx
			backend.Guard(x.log, "reading the busiest keys from "+p.node.Name(), func() {
				found := x.readPlace(ctx, p)
				mu.Lock()
				defer mu.Unlock()
				for name, r := range found {
					if old, known := newest[name]; known && old.Seq < r.Seq || !known && len(newest) < maxProxies {
						newest[name] = r
					}
				}
			})
		})
	}
	all.Wait()
	x.read, x.readAt = newest, x.now()
	x.others.Store(int64(len(newest)))
	return newest
}

// readPlace returns the records of other proxies in a place. Invalid records are left out
// and logged.
func (x *Exchange) readPlace(ctx context.Context, p place) map[string]record {
	index, err := p.node.Client().GetRange(ctx, p.index, 0, maxIndex-1).Bytes()
	if err != nil {
		x.trouble("cannot read the busiest keys of other proxies", p.node, err)
		return nil
	}
	names := x.names(index)
	if len(names) == 0 {
		return nil
	}
	texts := make([]*redis.StringCmd, len(names))
	pipe := p.node.Client().Pipeline()
	for i, name := range names {
		texts[i] = pipe.GetRange(ctx, p.record(name), 0, maxRecord) // a byte more than it may have
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	found := make(map[string]record)
	for i, name := range names {
		text, err := texts[i].Bytes()
		if err != nil {
			x.trouble("cannot read the busiest keys of other proxies", p.node, err)
			continue
		}
		if len(text) == 0 {
			continue // its proxy has ended
		}
		r, err := decode(text)
		if err != nil {
			x.ignored.Add(1)
			x.warn("ignoring a record of another proxy's busiest keys", "node", p.node.Name(), "key", p.record(name), "why", err)
			continue
		}
		found[name] = r
	}
	return found
}

// names returns the other proxies that an index names. What is not an index names none.
func (x *Exchange) names(index []byte) (names []string) {
	var till map[string]json.Number
	if json.Unmarshal(index, &till) != nil {
		return nil
	}
	for name := range till {
		if name != x.self && len(name) <= maxName && len(names) < maxProxies {
			names = append(names, name)
		}
	}
	return names
}
