package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
)

// recordKey is the stored key of the index of a node's record. No client's key has this stored key: there, a % is
// followed by p, s or two hexadecimal digits.
const recordKey = "rl:{%backends}"

// Bounds of what is read from a node's record.
const (
	maxRecord = 1 << 20 // bytes of a layout
	maxNames  = 4096    // nodes of a layout
	maxWord   = 1024    // bytes of a node's name
)

// list is a layout: the nodes' names for placement, sorted.
type list []string

// newList returns the layout with these names, and the index of each name in the layout.
func newList(names []string) (l list, index []int) {
	l = slices.Sorted(slices.Values(names))
	for _, name := range names {
		i, _ := slices.BinarySearch(l, name)
		index = append(index, i)
	}
	return l, index
}

// text returns the layout as it is stored in a record: JSON.
func (l list) text() string {
	b, err := json.Marshal([]string(l))
	if err != nil {
		panic("a list of strings has no JSON: " + err.Error())
	}
	return string(b)
}

func hash(text string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(text)) }

// listing is one layout in a node's record.
type listing struct {
	list    list
	index   int                  // index of the node in list
	proxies map[string]time.Time // when each proxy that has the layout expires, by this process's clock
}

// live returns the proxies that have not expired at now.
func (e *listing) live(now time.Time) map[string]time.Time {
	live := maps.Clone(e.proxies)
	maps.DeleteFunc(live, func(_ string, till time.Time) bool { return !till.After(now) })
	return live
}

// contents is a node's record as a proxy has read it.
type contents struct {
	listings []listing
	earlier  bool // this proxy has read the record before
	crowded  bool // there may be proxies for which the record has no room
}

// ask reads the record of a node, and sees to it that it has the layout own of the proxy, in which the node has the
// given index. If ttl is 0, ask removes the proxy. was has the contents before, or nil.
//
// In the record, a layout's text has the name "<proxy> <index> <hash of the text>". So a text is read only if it is
// new.
func ask(
	ctx context.Context, n *backend.Node, own list, index int, proxy string, ttl time.Duration, was *contents,
) (*contents, error) {
	r := registry.Registry{Node: n, Key: recordKey, Bytes: maxRecord, Limit: maxRound}
	text := own.text()
	name := proxy + " " + strconv.Itoa(index) + " " + hash(text)
	if ttl == 0 {
		return was, r.Remove(ctx, name)
	}
	found, err := r.Keep(ctx, name, []byte(text), ttl)
	if err != nil && !errors.Is(err, registry.ErrFull) { // else others are listed in place of this one
		return nil, err
	}
	known := map[string]list{hash(text): own}
	if was != nil {
		for _, e := range was.listings {
			known[hash(e.list.text())] = e.list
		}
	}
	unknown := make(map[string]string) // a name for each hash, another one in each round if several have it
	for name := range found.Names {
		if _, _, sum := split(name); known[sum] == nil {
			unknown[sum] = name
		}
	}
	r.Values(ctx, slices.Collect(maps.Values(unknown)), func(name string, text []byte, err error) {
		if _, _, sum := split(name); err == nil && hash(string(text)) == sum {
			known[sum] = parse(text)
		}
	})
	return &contents{listings(found.Names, known), was != nil, found.Full()}, nil
}

// listings returns the listings of a record with these names whose layouts are known, by their hashes.
func listings(names map[string]time.Time, known map[string]list) (listings []listing) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		proxy, index, sum := split(name)
		l := known[sum]
		if index < 0 || index >= len(l) {
			continue // its layout cannot be read
		}
		i := slices.IndexFunc(listings, func(e listing) bool { return e.index == index && slices.Equal(e.list, l) })
		if i < 0 {
			i, listings = len(listings), append(listings, listing{l, index, make(map[string]time.Time)})
		}
		listings[i].proxies[proxy] = names[name]
	}
	return listings
}

// split returns the parts of a name in a record. An invalid name has the index -1.
func split(name string) (proxy string, index int, sum string) {
	words := strings.Split(name, " ")
	if len(words) != 3 {
		return "", -1, ""
	}
	index, err := strconv.Atoi(words[1])
	if err != nil {
		index = -1
	}
	return words[0], index, words[2]
}

// parse parses a layout's text. It returns nil for what is none.
func parse(text []byte) (l list) {
	if len(text) > maxRecord || json.Unmarshal(text, &l) != nil || !l.valid() {
		return nil
	}
	return l
}

// valid reports whether l can be a proxy's layout.
func (l list) valid() bool {
	tooLong := func(name string) bool { return len(name) > maxWord }
	return len(l) > 0 && len(l) <= maxNames && slices.IsSorted(l) && !slices.ContainsFunc(l, tooLong)
}
