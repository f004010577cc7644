package hotkeys

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
)

// readOthers returns the newest record of each other proxy. It reads them from the nodes unless it did so a moment ago.
// Callers at the same time share what one of them reads.
func (x *Exchange) readOthers() map[string]record {
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.fleet == nil || x.read != nil && x.now().Sub(x.readAt) < readAgain {
		return x.read
	}
	found := boards(x.fleet.Topology())
	nodes := make([]*backend.Node, len(found))
	for i, p := range found {
		nodes[i] = p.node
	}
	newest := make(map[string]record)
	var mu sync.Mutex // guards newest
	registry.Each(x.log, "reading the busiest keys from", nodes, func(i int, _ *backend.Node) {
		x.readBoard(context.Background(), found[i], func(name string, r record) {
			mu.Lock()
			defer mu.Unlock()
			if old, known := newest[name]; known && old.Seq < r.Seq || !known && len(newest) < registry.MaxNames {
				newest[name] = r
			}
		})
	})
	x.read, x.readAt = newest, x.now()
	x.others.Store(int64(len(newest)))
	return newest
}

// readBoard passes on the records of other proxies on a board. Invalid records are left out and logged.
func (x *Exchange) readBoard(ctx context.Context, p board, found func(string, record)) {
	in := x.registry(p)
	index, err := in.List(ctx)
	failure, ignored := err, false
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(index.Names)), func(name string) bool { return name == x.self })
	in.Values(ctx, names, func(name string, text []byte, err error) {
		switch {
		case err != nil:
			failure = err
		case len(text) > 0: // else its proxy has ended
			r, err := decode(text)
			if err != nil {
				x.ignored.Add(1)
				ignored = true
				x.note(true, noSense, p.node, "key", p.index+name, "why", err)
				return
			}
			found(name, r)
		}
	})
	if refused := registry.Refused(x.fleet, failure); refused || failure == nil {
		x.note(refused, noRead, p.node, "why", failure)
	}
	if failure == nil && !ignored {
		x.note(false, noSense, p.node)
	}
}
