// Package named keeps what is counted by name: of a command, of an error or of a policy.
package named

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Map maps names to what is counted of them. It is read without a lock, and replaced when a name is added, which is
// rare. It is safe for concurrent use. The zero Map is empty.
type Map[V any] struct {
	byName atomic.Pointer[map[string]*V]
	mu     sync.Mutex // held while a name is added
}

// now returns the current map. It must not be modified.
func (m *Map[V]) now() map[string]*V {
	if now := m.byName.Load(); now != nil {
		return *now
	}
	return nil
}

// Get returns the value of a name, or nil. It does not allocate.
func (m *Map[V]) Get(name []byte) *V { return m.now()[string(name)] }

// Add returns the value of a name, and adds the name if it is new. It returns nil if there are most names already.
func (m *Map[V]) Add(name string, most int) *V {
	now := m.now()
	if v := now[name]; v != nil || len(now) >= most {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now()
	if v := old[name]; v != nil || len(old) >= most {
		return v
	}
	next := make(map[string]*V, len(old)+1)
	maps.Copy(next, old)
	v := new(V)
	next[strings.Clone(name)] = v // it may be part of a long text
	m.byName.Store(&next)
	return v
}

// All yields the names in order, and their values.
func (m *Map[V]) All() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		now := m.now()
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if !yield(name, now[name]) {
				return
			}
		}
	}
}
