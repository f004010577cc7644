package policy

import (
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
)

// A Book holds the policies in effect: those of the configuration, and stored ones with other
// names. It is safe for concurrent use. The zero Book is empty.
type Book struct {
	mu         sync.Mutex
	configured *Set  // policies of the configuration, or nil; guarded by mu
	stored     *Set  // policies stored by commands, or nil; guarded by mu
	version    int64 // version of stored; guarded by mu

	effective atomic.Pointer[Set]                // the policies in effect; nil: none
	unread    atomic.Pointer[engine.Unavailable] // why the stored policies are unknown; nil if they are known
}

// Find returns the policy with this name that is in effect, or nil.
func (b *Book) Find(name []byte) *Policy { return b.InEffect().Find(name) }

// InEffect returns all policies in effect.
func (b *Book) InEffect() *Set {
	if s := b.effective.Load(); s != nil {
		return s
	}
	return &none
}

var none Set

// Configured returns the policy with this name if it is in the configuration, else nil.
func (b *Book) Configured(name []byte) *Policy {
	if p := b.Find(name); p != nil && p.Configured {
		return p
	}
	return nil
}

// Configure replaces the policies of the configuration.
func (b *Book) Configure(s *Set) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configured = s
	b.merge()
}

// Store replaces the stored policies and their version. From then on they are known.
func (b *Book) Store(s *Set, version int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stored, b.version = s, version
	b.merge()
	b.unread.Store(nil)
}

// Stored returns the stored policies and their version.
func (b *Book) Stored() (s *Set, version int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stored == nil {
		return &none, b.version
	}
	return b.stored, b.version
}

// SetUnknown records that the stored policies are unknown until Store is called, and why.
func (b *Book) SetUnknown(why *engine.Unavailable) { b.unread.Store(why) }

// WhyUnknown returns why the stored policies are unknown, or nil if they are known.
func (b *Book) WhyUnknown() *engine.Unavailable { return b.unread.Load() }

// merge combines the configured and the stored policies and puts them into effect. The caller
// holds mu.
func (b *Book) merge() {
	var all []*Policy
	if b.configured != nil {
		for _, p := range b.configured.all {
			own := *p
			own.Configured, own.Version = true, 0
			all = append(all, &own)
		}
	}
	if b.stored != nil {
		for _, p := range b.stored.all {
			if b.configured != nil && b.configured.byName[p.Name] != nil {
				continue
			}
			own := *p
			own.Configured, own.Version = false, b.version
			all = append(all, &own)
		}
	}
	b.effective.Store(newSet(all))
}
