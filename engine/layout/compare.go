package layout

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/rlproxy/rlproxy/shard"
)

// Conflict is what the proxies disagree about: their layouts place some keys on different
// servers. It is immutable.
type Conflict struct {
	place  *shard.Nodes // by this proxy's layout
	server []int        // for each node of this proxy's layout, the first one that is the same server
	others []*other
}

// other is a layout of other proxies that is not this one's.
type other struct {
	list    list
	renamed bool // it has this proxy's names, but other servers behind them
	proxies map[string]time.Time
	place   *shard.Nodes
	server  []int // for each of its nodes, the same server in Conflict.server; -1: there is none
}

// Contested reports whether two proxies' layouts place the key with that name on different
// servers. If it has several shards, all of them count.
func (c *Conflict) Contested(name []byte, shards int) bool {
	key, _ := shard.ClientKey(name) // as backend.Topology places it
	return slices.ContainsFunc(c.others, func(o *other) bool { return c.moves(o, key, shards) })
}

func (c *Conflict) moves(o *other, key []byte, shards int) bool {
	if shards <= 1 {
		return c.server[c.place.Home(key)] != o.server[o.place.Home(key)]
	}
	var buf [2][16]int
	here, there := c.place.Order(key, buf[0][:0]), o.place.Order(key, buf[1][:0])
	for i := range min(shards, len(here)*len(there)) { // then they repeat
		if c.server[here[i%len(here)]] != o.server[there[i%len(there)]] {
			return true
		}
	}
	return false
}

// share returns how many of a hundred keys two layouts place on different servers, of a
// sample.
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

// finding is what the records of all nodes say together.
type finding struct {
	conflict *Conflict // nil: all layouts place all keys on the same servers
	others   []*other  // sorted
	twice    [][2]int  // nodes of this proxy's layout that are one server
}

// compare compares the layout own of the proxy self with what was read from its nodes;
// looks[i] is about the node own[i], nil if nothing is known. Notes that have ended count
// for nothing.
func compare(own list, self string, looks []*look, now time.Time) finding {
	var found finding
	c := &Conflict{place: shard.NewNodes(own), server: make([]int, len(own))}
	for i := range own {
		c.server[i] = i
	}
	ownText, groups, servers := own.text(), map[string]*other{}, map[*other]map[int]int{}
	for i, l := range looks {
		if l == nil {
			continue
		}
		noted := l.earlier && slices.ContainsFunc(l.notes, func(e note) bool {
			return e.index == i && e.list.text() == ownText && e.proxies[self].After(now)
		})
		for _, e := range l.notes {
			proxies, text := e.live(now), e.list.text()
			_, mine := proxies[self]
			same := text == ownText
			switch {
			case len(proxies) == 0 || same && e.index == i:
				continue
			case same && mine:
				found.addTwice(min(i, e.index), max(i, e.index))
				continue
			case same && !noted:
				continue // this proxy may not have noted its other names for the server yet, or found no room for them
			}
			o := groups[text]
			if o == nil {
				o = &other{list: e.list, renamed: same, proxies: map[string]time.Time{}, place: shard.NewNodes(e.list)}
				groups[text], servers[o] = o, map[int]int{}
			}
			for name, till := range proxies {
				if len(o.proxies) < maxProxies && till.After(o.proxies[name]) {
					o.proxies[name] = till
				}
			}
			servers[o][e.index] = i
		}
	}
	for _, pair := range found.twice {
		first, second := c.server[pair[0]], c.server[pair[1]]
		for i, server := range c.server {
			if server == max(first, second) {
				c.server[i] = min(first, second)
			}
		}
	}
	for _, o := range groups {
		o.server = c.locate(own, o.list, servers[o])
		if len(own) > 1 || len(o.list) > 1 || o.server[0] != 0 {
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

// addTwice adds two nodes that are one server.
func (f *finding) addTwice(a, b int) {
	if !slices.Contains(f.twice, [2]int{a, b}) {
		f.twice = append(f.twice, [2]int{a, b})
	}
}

// locate returns the server of each node of another layout: the one on which the node was
// noted, else the one with the same name.
func (c *Conflict) locate(own, names list, noted map[int]int) []int {
	servers := make([]int, len(names))
	for j, name := range names {
		i, ok := noted[j]
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
