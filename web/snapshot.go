package web

import (
	"encoding/base64"
	"math"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// maxShown is the most keys, and the most denials, of a snapshot.
const maxShown = 20

// snapshot is everything that the page shows, except for earlier points.
type snapshot struct {
	Time    int64      `json:"time"` // Unix ms
	Version string     `json:"version"`
	Engine  string     `json:"engine"` // redis or embedded
	Uptime  int64      `json:"uptime_s"`
	Admin   bool       `json:"admin"` // the user may reset keys on the page
	Point   point      `json:"point"`
	Keys    []hotKey   `json:"keys"`
	Nodes   []node     `json:"nodes"`
	Memory  *memoryUse `json:"memory,omitempty"` // memory of the embedded engine; nil with nodes
	Denials []denial   `json:"denials"`
}

// hotKey is one of the busiest keys.
type hotKey struct {
	named
	Rate      int64 `json:"rate"` // decisions per second
	Admitted  int64 `json:"admitted"`
	Denied    int64 `json:"denied"`
	Fail      int64 `json:"fail"`      // answers by FAIL policies
	Shadow    int64 `json:"shadow"`    // requests that SHADOW would have denied
	Drawn     int64 `json:"drawn"`     // those of Admitted that came from an advance
	Limit     int64 `json:"limit"`     // the limit in the last answer
	Remaining int64 `json:"remaining"` // what remained in the last answer; -1: unknown
	Shards    int   `json:"shards"`
}

// node is the state of one node.
type node struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Why   string `json:"why"`
	// median of the round trips since the last snapshot, or the latest measurement if there were none; nil: not
	// measured yet
	Latency *int64 `json:"latency_us"`
	Offset  *int64 `json:"offset_us"` // the node's clock minus this machine's; nil: not measured yet
	Queue   int    `json:"queue"`     // requests that wait for the node
}

// memoryUse is the memory that the states of keys take in this process.
type memoryUse struct {
	Used int64 `json:"used"` // bytes in use
	Max  int64 `json:"max"`  // the most bytes
	Keys int64 `json:"keys"` // number of keys
}

// denial is one of the newest denials.
type denial struct {
	named
	Time       int64  `json:"time"` // Unix ms
	Command    string `json:"command"`
	Policy     string `json:"policy"`    // name of the policy that has the limits; empty: the command has them
	Limit      int64  `json:"limit"`     // the limit that denied; 0: an override blocks the key
	Window     int64  `json:"window_ms"` // the window of the limit; 0: the limit is that of RL.ACQUIRE
	Used       int64  `json:"used"`      // units of the limit in use; -1: unknown
	RetryAfter int64  `json:"retry_after_ms"`
	Node       string `json:"node"`
	Fail       string `json:"fail"`   // the FAIL policy that denied; empty: the key's state denied
	Shadow     bool   `json:"shadow"` // the request had SHADOW, so it was not actually denied
	Client     string `json:"client"` // the client's address, and its name if it has one
}

// named is a key in JSON, whose strings cannot have all bytes.
type named struct {
	Key string `json:"key"` // the key for display: bytes that are not UTF-8 are replaced
	ID  string `json:"id"`  // the key's bytes in base64url, for requests about the key
}

// ids encodes keys as ids.
var ids = base64.RawURLEncoding

func name(key []byte) named {
	return named{strings.ToValidUTF8(string(key), "\uFFFD"), ids.EncodeToString(key)}
}

// scene has everything that any watcher may see at one moment.
type scene struct {
	snapshot
	keys    []observe.HotKey     // the busiest first
	denials []decisionlog.Denial // the newest first
}

// scene returns the current scene. Only the sampler calls it, and only while there are watchers.
func (s *Server) scene(p point) *scene {
	c := &scene{keys: s.cfg.Observer.HotKeys(math.MaxInt), denials: s.cfg.Denials(math.MaxInt)}
	c.snapshot = snapshot{
		Time: p.Time, Version: s.cfg.Version, Uptime: int64(time.Since(s.started).Seconds()), Point: p,
		Keys: []hotKey{}, Nodes: []node{}, Denials: []denial{},
	}
	var m memoryUse
	for _, stat := range s.cfg.Engine.Stats() {
		switch stat.Name {
		case "engine":
			c.Engine = stat.Text
		case "keys":
			m.Keys = stat.Value
		case "memory":
			m.Used, c.Memory = stat.Value, &m
		case "max_memory":
			m.Max = stat.Value
		}
	}
	trips := make(map[string]*histogram.Snapshot)
	for _, n := range s.cfg.Engine.Nodes() {
		c.Nodes = append(c.Nodes, s.nodeOf(&n, trips))
	}
	s.trips = trips
	return c
}

// nodeOf converts a node to JSON form, and adds its round trips so far to trips.
func (s *Server) nodeOf(n *engine.NodeInfo, trips map[string]*histogram.Snapshot) node {
	shown := node{Name: n.Name, State: n.State, Why: n.Why}
	if f := n.Facts; f != nil {
		latency, offset := f.Latency.Microseconds(), f.Offset.Microseconds()
		shown.Latency, shown.Offset = &latency, &offset
	}
	if n.Traffic != nil {
		shown.Queue = n.Traffic.Waiting
		trips[n.Name] = n.Traffic.RoundTrips
		if before := s.trips[n.Name]; before != nil && n.Traffic.RoundTrips.Count > before.Count {
			median := n.Traffic.RoundTrips.Since(before).Quantile(0.5).Microseconds()
			shown.Latency = &median
		}
	}
	return shown
}

// seenBy returns what a user may see of the scene.
func (c *scene) seenBy(u *acl.User, rules *Access) *snapshot {
	shown, all := c.snapshot, u.MayReadAll("rl.hotkeys")
	shown.Admin = rules.Admin && u.MayRun("rl.reset")
	if !u.MayRun("rl.nodes") {
		shown.Nodes = []node{}
	}
	if !u.MayRun("info") {
		shown.Memory = nil
	}
	for i := range c.keys {
		k := &c.keys[i]
		if len(shown.Keys) == maxShown {
			break
		}
		if all || u.MayUse("rl.hotkeys", k.Key, true, false) {
			shown.Keys = append(shown.Keys, hotKey{
				named: name(k.Key), Rate: int64(math.Round(k.Rate)), Admitted: k.Admitted, Denied: k.Denied,
				Fail: k.ByFail, Shadow: k.ShadowDenied, Drawn: k.Drawn,
				Limit: k.Limit, Remaining: k.Remaining, Shards: k.Shards,
			})
		}
	}
	for i := range c.denials {
		d := &c.denials[i]
		if len(shown.Denials) == maxShown {
			break
		}
		if all || u.MayUse("rl.hotkeys", d.Key, true, false) {
			shown.Denials = append(shown.Denials, denialOf(d, u.MayRun("client|list")))
		}
	}
	return &shown
}

// denialOf converts a denial to JSON form, with or without the client.
func denialOf(d *decisionlog.Denial, client bool) denial {
	shown := denial{
		named: name(d.Key), Time: d.Time.UnixMilli(), Command: d.Command, Policy: d.Policy, Limit: d.Limit,
		Window: d.Window.Milliseconds(),
		Used:   d.Used, RetryAfter: d.RetryAfter.Milliseconds(), Node: d.Node, Shadow: d.Shadow,
	}
	if d.Fail != engine.FailDefault {
		shown.Fail = d.Fail.String()
	}
	if client {
		shown.Client = strings.TrimSpace(d.Client + " " + strings.ToValidUTF8(d.ClientName, "\uFFFD"))
	}
	return shown
}
