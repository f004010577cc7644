package layout

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/shard"
)

// Conflict describes a disagreement between proxies: their layouts place some keys on different servers. It is
// immutable.
type Conflict struct {
	placement *shard.Placement // the placement of this proxy's layout
	server    []int            // for each node of this layout, the index of the first node that is the same server
	others    []*other         // the layouts of other proxies that differ from this one's
}

// other is a layout of other proxies that differs from this proxy's.
type other struct {
	list      list
	renamed   bool                 // it has this proxy's names, but they stand for different servers
	proxies   map[string]time.Time // the proxies that have the layout, and until when, by this process's clock
	placement *shard.Placement     // the placement of the layout
	// for each node of the layout, the same server as in Conflict.server; -1 if it is unknown
	server []int
}

// Contested reports whether two proxies' layouts place the named key on different servers. If the key has several
// shards, it is contested if any of them is placed on different servers.
func (c *Conflict) Contested(name []byte, shards int) bool {
	key, _ := shard.ClientKey(name) // as backend.Topology places it
	return slices.ContainsFunc(c.others, func(o *other) bool { return c.moves(o, key, shards) })
}

// moves reports whether o places any shard of the client's key on another server.
func (c *Conflict) moves(o *other, key []byte, shards int) bool {
	if shards <= 1 {
		return c.server[c.placement.Home(key)] != o.server[o.placement.Home(key)]
	}
	var buf [2][16]int
	here, there := c.placement.Order(key, buf[0][:0]), o.placement.Order(key, buf[1][:0])
	for i := range min(shards, len(here)*len(there)) { // after that the pairs repeat
		if c.server[here[i%len(here)]] != o.server[there[i%len(there)]] {
			return true
		}
	}
	return false
}

// share returns the percentage of keys that o places on other servers, measured on a sample and rounded up.
func (c *Conflict) share(o *other) int {
	const sample = 2000
	moved := 0
	for i := range sample {
		if c.moves(o, strconv.AppendInt(nil, int64(i), 10), 1) {
			moved++
		}
	}
	return (moved*100 + sample - 1) / sample
}

// finding is the result of comparing the records of all nodes.
type finding struct {
	conflict *Conflict // nil: all layouts place all keys on the same servers
	others   []*other  // all layouts that differ from this proxy's, sorted
	twice    [][2]int  // pairs of nodes of this proxy's layout that are the same server
}

// compare compares own, the layout of the proxy self, with what was read from its nodes. records[i] is about the node
// own[i]; it is nil if nothing is known. Listings that have expired are ignored.
func compare(own list, self string, records []*contents, now time.Time) finding {
	var found finding
	c := &Conflict{placement: shard.NewPlacement(own), server: make([]int, len(own))}
	for i := range own {
		c.server[i] = i
	}
	ownText := own.text()
	groups := map[string]*other{}       // by the text of the layout
	servers := map[*other]map[int]int{} // the last argument of locate
	for i, r := range records {
		if r == nil {
			continue
		}
		// listed reports whether this proxy is in the record and has read it before.
		listed := r.earlier && slices.ContainsFunc(r.listings, func(e listing) bool {
			return e.index == i && e.list.text() == ownText && e.proxies[self].After(now)
		})
		for _, e := range r.listings {
			proxies, text := e.live(now), e.list.text()
			_, mine := proxies[self]
			same := text == ownText
			switch {
			case len(proxies) == 0 || same && e.index == i:
				continue
			case same && mine:
				found.addTwice(min(i, e.index), max(i, e.index))
				continue
			case same && !listed:
				continue // this proxy may not have stored its other names for the server yet, or found no room for them
			}
			o := groups[text]
			if o == nil {
				o = &other{list: e.list, renamed: same, proxies: map[string]time.Time{},
					placement: shard.NewPlacement(e.list)}
				groups[text], servers[o] = o, map[int]int{}
			}
			for name, till := range proxies {
				if len(o.proxies) < registry.MaxNames && till.After(o.proxies[name]) {
					o.proxies[name] = till
				}
			}
			servers[o][e.index] = i
		}
	}
	c.merge(found.twice)
	for _, o := range groups {
		o.server = c.locate(own, o.list, servers[o])
		// If both layouts have only one server, it is the one in whose record the other was found, and has all keys.
		if len(own) > 1 || len(o.list) > 1 {
			c.others = append(c.others, o)
		}
		found.others = append(found.others, o)
	}
	slices.SortFunc(found.others, func(a, b *other) int { return slices.Compare(a.list, b.list) })
	slices.SortFunc(found.twice, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	if len(c.others) > 0 {
		found.conflict = c
	}
	return found
}

// merge gives nodes that are the same server the same index.
func (c *Conflict) merge(twice [][2]int) {
	for _, pair := range twice {
		first, second := c.server[pair[0]], c.server[pair[1]]
		for i, server := range c.server {
			if server == max(first, second) {
				c.server[i] = min(first, second)
			}
		}
	}
}

// addTwice records that two nodes are the same server.
func (f *finding) addTwice(a, b int) {
	if !slices.Contains(f.twice, [2]int{a, b}) {
		f.twice = append(f.twice, [2]int{a, b})
	}
}

// locate returns the server of each node of another layout: the one in whose record the node was found, else the one
// with the same name. found maps indexes in names to indexes in own.
func (c *Conflict) locate(own, names list, found map[int]int) []int {
	servers := make([]int, len(names))
	for j, name := range names {
		i, ok := found[j]
		if !ok {
			if i, ok = slices.BinarySearch(own, name); !ok {
				servers[j] = -1
				continue
			}
		}
		servers[j] = c.server[i]
	}
	return servers
}
