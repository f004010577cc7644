package policy

import (
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
)

// A Catalog holds the policies in effect: those of the configuration, and stored ones with other
// names. It is safe for concurrent use. The zero Catalog is empty.
type Catalog struct {
	mu         sync.Mutex
	configured *Set  // policies of the configuration, or nil; guarded by mu
	stored     *Set  // policies stored by commands, or nil; guarded by mu
	version    int64 // version of stored; guarded by mu

	effective atomic.Pointer[Set]                // the policies in effect; nil: none
	unread    atomic.Pointer[engine.Unavailable] // why the stored policies are unknown; nil if they are known
}

// Find returns the policy with this name that is in effect, or nil.
func (c *Catalog) Find(name []byte) *Policy { return c.InEffect().Find(name) }

// InEffect returns all policies in effect.
func (c *Catalog) InEffect() *Set {
	if s := c.effective.Load(); s != nil {
		return s
	}
	return &none
}

var none Set

// Configured returns the policy with this name if it is in the configuration, else nil.
func (c *Catalog) Configured(name []byte) *Policy {
	if p := c.Find(name); p != nil && p.Configured {
		return p
	}
	return nil
}

// Configure replaces the policies of the configuration.
func (c *Catalog) Configure(s *Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepCounts(s)
	c.configured = s
	c.merge()
}

// Store replaces the stored policies and their version. From then on they are known.
func (c *Catalog) Store(s *Set, version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepCounts(s)
	c.stored, c.version = s, version
	c.merge()
	c.unread.Store(nil)
}

// Stored returns the stored policies and their version.
func (c *Catalog) Stored() (s *Set, version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stored == nil {
		return &none, c.version
	}
	return c.stored, c.version
}

// SetUnknown records that the stored policies are unknown until Store is called, and why.
func (c *Catalog) SetUnknown(why *engine.Unavailable) { c.unread.Store(why) }

// WhyUnknown returns why the stored policies are unknown, or nil if they are known.
func (c *Catalog) WhyUnknown() *engine.Unavailable { return c.unread.Load() }

// keepCounts gives overrides of s the counts of those in effect with the same patterns. It modifies no set in effect.
func (c *Catalog) keepCounts(s *Set) {
	for _, p := range s.All() {
		old := c.Find([]byte(p.Name))
		for i := range p.Overrides {
			o := &p.Overrides[i]
			if was := old.overrideOf(o.Pattern); was != nil && was.Counts != o.Counts {
				o.Counts = was.Counts
			}
		}
	}
}

// merge combines the configured and the stored policies and puts them into effect. The caller
// holds mu.
func (c *Catalog) merge() {
	var all []*Policy
	if c.configured != nil {
		for _, p := range c.configured.all {
			own := *p
			own.Configured, own.Version = true, 0
			all = append(all, &own)
		}
	}
	if c.stored != nil {
		for _, p := range c.stored.all {
			if c.configured != nil && c.configured.byName[p.Name] != nil {
				continue
			}
			own := *p
			own.Configured, own.Version = false, c.version
			all = append(all, &own)
		}
	}
	c.effective.Store(newSet(all))
}
