package web

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// maxShown is the most keys, and the most groups of denials, of a snapshot.
const maxShown = 20

// snapshot is everything that the page shows, except for earlier points.
type snapshot struct {
	Time     int64         `json:"time"` // Unix ms
	Version  string        `json:"version"`
	Engine   string        `json:"engine"` // redis or embedded
	Port     int           `json:"port"`   // that clients connect to; 0: none, but a Unix socket
	Uptime   int64         `json:"uptime_s"`
	Admin    bool          `json:"admin"`    // the user may reset keys on the page
	Policies bool          `json:"policies"` // the user may read the named policies
	Point    point         `json:"point"`
	Problems []problem     `json:"problems"`
	Keys     []hotKey      `json:"keys"`
	Nodes    []node        `json:"nodes"`
	Memory   *memoryUse    `json:"memory,omitempty"` // memory of the embedded engine; nil with nodes
	Denials  []denialGroup `json:"denials"`
}

// hotKey is one of the busiest keys.
type hotKey struct {
	named
	Rate      int64 `json:"rate"`      // decisions per second
	Decisions int64 `json:"decisions"` // without SHADOW
	Admitted  int64 `json:"admitted"`
	Denied    int64 `json:"denied"`    // by a limit, also by FAIL LOCAL
	Refused   int64 `json:"refused"`   // those of Fail that were denials or errors
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
	Wrong   bool   `json:"wrong"`     // Offset is more than windows allow
	Queue   int    `json:"queue"`     // requests that wait for the node
}

// memoryUse is the memory that the states of keys take in this process.
type memoryUse struct {
	Used int64 `json:"used"` // bytes in use
	Max  int64 `json:"max"`  // the most bytes
	Keys int64 `json:"keys"` // number of keys
}

// denialGroup has the newest denials by one policy, or of the keys with one prefix.
type denialGroup struct {
	Policy string   `json:"policy"`
	Prefix string   `json:"prefix"`
	Count  int64    `json:"count"` // denials, of which Keys has the newest
	Keys   []denial `json:"keys"`  // the newest denial of each key, the newest first
}

// denial is the newest denial of a key.
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
	Count      int64  `json:"count"`  // denials of the key that are known of, each the first one in its window
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
	return named{valid(string(key)), ids.EncodeToString(key)}
}

// scene has everything that any watcher may see at one moment.
type scene struct {
	snapshot
	keys    []observe.HotKey    // the busiest first
	denials []decisionlog.Group // the one with the newest denial first
}

// scene returns the current scene. Only the sampler calls it, and only while there are watchers.
func (s *Server) scene(p point) *scene {
	nodes := s.cfg.Engine.Nodes()
	c := &scene{keys: s.cfg.Observer.HotKeys(math.MaxInt), denials: s.cfg.Denials()}
	c.snapshot = snapshot{
		Time: p.Time, Version: s.cfg.Version, Port: s.cfg.Port, Uptime: int64(time.Since(s.started).Seconds()),
		Point:    p,
		Problems: s.problems(nodes, s.cfg.Metrics.Stats()),
		Keys:     []hotKey{}, Nodes: []node{}, Denials: []denialGroup{},
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
	for i := range nodes {
		c.Nodes = append(c.Nodes, s.nodeOf(&nodes[i], trips))
	}
	s.trips = trips
	return c
}

// nodeOf converts a node to JSON form, and adds its round trips so far to trips.
func (s *Server) nodeOf(n *engine.NodeInfo, trips map[string]*histogram.Snapshot) node {
	shown := node{Name: n.Name, State: n.State, Why: n.Why}
	if f := n.Facts; f != nil {
		latency, offset := f.Latency.Microseconds(), f.Offset.Microseconds()
		shown.Latency, shown.Offset, shown.Wrong = &latency, &offset, f.ClockOff
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
	shown := c.snapshot
	shown.Admin = rules.Admin && u.MayRun("rl.reset")
	if !u.MayRun("rl.nodes") {
		shown.Nodes = []node{}
	}
	if !u.MayRun("info") {
		shown.Memory = nil
	}
	shown.Policies = u.MayReadAll("rl.policy|list")
	shown.Problems = slices.DeleteFunc(slices.Clone(c.Problems), func(p problem) bool { return !u.MayRun(p.command) })
	shown.Keys = shownKeys(c.keys, u)
	for i := range c.denials {
		if len(shown.Denials) == maxShown {
			break
		}
		if g := groupOf(&c.denials[i], u); len(g.Keys) > 0 {
			shown.Denials = append(shown.Denials, g)
		}
	}
	return &shown
}

// shownKeys returns those of the busiest keys that a user may see, at most maxShown.
func shownKeys(keys []observe.HotKey, u *acl.User) []hotKey {
	shown, all := []hotKey{}, u.MayReadAll("rl.hotkeys")
	for i := range keys {
		k := &keys[i]
		if len(shown) == maxShown {
			break
		}
		if all || u.MayUse("rl.hotkeys", k.Key, true, false) {
			shown = append(shown, hotKey{
				named: name(k.Key), Rate: round(k.Rate), Decisions: k.Decisions, Admitted: k.Admitted,
				Denied: k.Denied, Refused: k.Refused, Fail: k.ByFail, Shadow: k.ShadowDenied, Drawn: k.Drawn,
				Limit: k.Limit, Remaining: k.Remaining, Shards: k.Shards,
			})
		}
	}
	return shown
}

func round(rate float64) int64 { return int64(math.Round(rate)) }

// groupOf returns what a user may see of a group. Only users who may read all keys see how many denials it has in all.
func groupOf(g *decisionlog.Group, u *acl.User) denialGroup {
	shown := denialGroup{Policy: g.Policy, Prefix: valid(g.Prefix)}
	all, sum := u.MayReadAll("rl.hotkeys"), int64(0)
	for i := range g.Keys {
		d := &g.Keys[i]
		if all || u.MayUse("rl.hotkeys", d.Key, true, false) {
			shown.Keys = append(shown.Keys, denialOf(d, u.MayRun("client|list")))
			sum += d.Count
		}
	}
	if shown.Count = sum; all {
		shown.Count = g.Count
	}
	return shown
}

// denialOf converts a denial to JSON form, with or without the client.
func denialOf(d *decisionlog.Denial, client bool) denial {
	shown := denial{
		named: name(d.Key), Time: d.Time.UnixMilli(), Command: d.Command, Policy: d.Policy, Limit: d.Limit,
		Window: d.Window.Milliseconds(),
		Used:   d.Used, RetryAfter: d.RetryAfter.Milliseconds(), Node: d.Node, Shadow: d.Shadow, Count: d.Count,
	}
	if d.Fail != engine.FailDefault {
		shown.Fail = d.Fail.String()
	}
	if client {
		shown.Client = strings.TrimSpace(d.Client + " " + valid(d.ClientName))
	}
	return shown
}
