package layout

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// recordKey is the stored key of a node's record. No client's key has this stored key: there, a %
// is followed by p, s or two hexadecimal digits.
const recordKey = "rl:{%layouts}"

//go:embed record.lua
var script string

// Bounds of what is read from a node's record. The script observes them, but others may be able
// to write to the node.
const (
	maxRecord  = 1 << 20     // bytes of a record
	maxEntries = 16          // entries of a record
	maxProxies = 32          // proxies of an entry
	maxNames   = 4096        // nodes of a layout
	maxWord    = 1024        // bytes of a node's or a proxy's name
	maxLive    = time.Minute // remaining time to live of a proxy
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

// entry is one layout in a node's record.
type entry struct {
	list    list
	index   int                  // index of the node in list
	proxies map[string]time.Time // when each proxy that has the layout expires, by this process's clock
}

// live returns the proxies that have not expired at now.
func (e *entry) live(now time.Time) map[string]time.Time {
	live := maps.Clone(e.proxies)
	maps.DeleteFunc(live, func(_ string, till time.Time) bool { return !till.After(now) })
	return live
}

// crowded reports whether more proxies may have the layout than the record lists.
func (e entry) crowded() bool { return len(e.proxies) >= maxProxies }

// reading is a node's record as a proxy has read it.
type reading struct {
	entries []entry
	earlier bool          // this proxy has read the record before
	latency time.Duration // the time that reading the record took
	offset  time.Duration // the node's clock minus that of this machine
}

// ask reads the record of a node, and stores in it for ttl that proxy has the layout own, in
// which the node has the given index. If ttl is 0, ask removes the proxy.
func ask(ctx context.Context, n *backend.Node, own list, index int, proxy string, ttl time.Duration) (reading, error) {
	sent := time.Now()
	cmd := redis.NewSliceCmd(ctx, "eval", script, 1, recordKey, own.text(), strconv.Itoa(index), proxy, ttl.Milliseconds())
	if err := n.Client().Process(ctx, cmd); err != nil {
		return reading{}, err
	}
	return parse(cmd.Val(), sent, time.Now())
}

var errRecord = errors.New("malformed record of layouts")

// parse parses the script's reply to a call that was sent and answered at the given times.
func parse(reply []any, sent, received time.Time) (r reading, err error) {
	var words [3]string
	if len(reply) != len(words) {
		return r, errRecord
	}
	for i := range words {
		word, ok := reply[i].(string)
		if !ok || len(word) > maxRecord {
			return r, errRecord
		}
		words[i] = word
	}
	seconds, err := strconv.ParseUint(words[0], 10, 40)
	micros, err2 := strconv.ParseUint(words[1], 10, 20)
	if err = errors.Join(err, err2); err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	now := time.UnixMicro(int64(seconds)*1e6 + int64(micros))
	r.latency = received.Sub(sent)
	r.offset = now.Sub(sent.Add(r.latency / 2))
	var stored []struct {
		List    string             `json:"list"`
		Index   string             `json:"index"`
		Proxies map[string]float64 `json:"proxies"`
	}
	if err := json.Unmarshal([]byte(words[2]), &stored); err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	for _, s := range stored[:min(len(stored), maxEntries)] {
		e := entry{proxies: make(map[string]time.Time)}
		if json.Unmarshal([]byte(s.List), &e.list) != nil || !e.list.valid() {
			continue // it is not a layout
		}
		if e.index, err = strconv.Atoi(s.Index); err != nil || e.index < 0 || e.index >= len(e.list) {
			continue
		}
		for name, till := range s.Proxies {
			left := till - float64(now.UnixMilli())
			if left > 0 && left <= float64(maxLive.Milliseconds()) && len(name) <= maxWord && len(e.proxies) < maxProxies {
				e.proxies[name] = received.Add(time.Duration(left) * time.Millisecond)
			}
		}
		if len(e.proxies) > 0 {
			r.entries = append(r.entries, e)
		}
	}
	return r, nil
}

// valid reports whether l can be a proxy's layout.
func (l list) valid() bool {
	tooLong := func(name string) bool { return len(name) > maxWord }
	return len(l) > 0 && len(l) <= maxNames && slices.IsSorted(l) && !slices.ContainsFunc(l, tooLong)
}
