package stats

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// names maps names to what is counted of them. It is read without a lock, and replaced when a
// name is added, which is rare. The zero value is empty.
type names[V any] struct {
	byName atomic.Pointer[map[string]*V]
	mu     sync.Mutex // held while a name is added
}

// get returns the value of a name, or nil. It does not allocate.
func (n *names[V]) get(name []byte) *V {
	m := n.byName.Load()
	if m == nil {
		return nil
	}
	return (*m)[string(name)]
}

// add returns the value of a name, and adds the name if it is new. It returns nil if there are
// most names already.
func (n *names[V]) add(name string, most int) *V {
	if m := n.byName.Load(); m != nil && (*m)[name] != nil {
		return (*m)[name]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var old map[string]*V
	if m := n.byName.Load(); m != nil {
		old = *m
	}
	if v := old[name]; v != nil || len(old) >= most {
		return v
	}
	next := make(map[string]*V, len(old)+1)
	maps.Copy(next, old)
	v := new(V)
	next[name] = v
	n.byName.Store(&next)
	return v
}

// all yields the names in order, and their values.
func (n *names[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		m := n.byName.Load()
		if m == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(*m)) {
			if !yield(name, (*m)[name]) {
				return
			}
		}
	}
}
