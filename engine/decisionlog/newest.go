package decisionlog

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/shard"
)

// Denial is the first denial of a key in its window, by the key's state or by a FAIL policy. An error by FAIL ERROR
// counts as one.
type Denial struct {
	Time       time.Time
	Command    string // in lower case
	Policy     string // the policy that gave the limits; empty if the command did
	Key        []byte
	Shadow     bool              // SHADOW would have denied it; nobody was denied
	Limit      int64             // that of the window that denied, with several; 0: an override blocks the key
	Window     time.Duration     // its length; for CL.THROTTLE the time in which a full burst drains; 0 for RL.ACQUIRE
	Used       int64             // of the limit, when it was denied; -1: not known, because a FAIL policy denied
	Cost       int64             // what was asked for
	RetryAfter time.Duration     // as the client was told
	Node       string            // the key's node, its home if it is split: host:port or embedded
	Fail       engine.FailPolicy // what denied in place of the key's state; FailDefault if the state did
	Why        string            // with Fail: what is wrong with the node, if it is still known to be wrong
	Client     string            // the client's address; unix for a client of the Unix socket
	ClientName string            // as set by CLIENT SETNAME; empty if it was not
	Count      int64             // denials of the key since its Group has it, with this one; 0: it is in no Group
}

// Group has the newest denials by one policy, or of the keys with one prefix if commands brought their limits. So a
// tenant that is denied all the time does not displace the denials of the others.
type Group struct {
	Policy string   // empty: the group has a prefix
	Prefix string   // that of the keys, with the first : or / in them; empty: the keys have neither
	Count  int64    // denials since the group is kept, each the first one of its key in its window
	Keys   []Denial // the newest denial of each of the keys that were denied last, the newest first
}

// Bounds of what is kept.
const (
	maxGroups    = 32 // those that were denied last
	maxGroupKeys = 8  // of each group
	maxPrefix    = 64 // bytes
)

// newest keeps the newest denials.
type newest struct {
	mu     sync.Mutex
	groups []*Group // the one with the newest denial first; guarded by mu
}

func (n *newest) add(d Denial) {
	d.Key, d.Policy, d.Count = slices.Clone(d.Key), strings.Clone(d.Policy), 1 // none keeps the text that it is part of
	prefix := ""
	if d.Policy == "" {
		prefix = string(d.Key[:min(bytes.IndexAny(d.Key, ":/")+1, maxPrefix)])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.groups, func(g *Group) bool { return g.Policy == d.Policy && g.Prefix == prefix })
	g := &Group{Policy: d.Policy, Prefix: prefix}
	if i >= 0 {
		g = n.groups[i]
		n.groups = slices.Delete(n.groups, i, i+1)
	}
	n.groups = slices.Insert(n.groups[:min(len(n.groups), maxGroups-1)], 0, g)
	g.Count++
	same := func(old Denial) bool { return old.Shadow == d.Shadow && bytes.Equal(old.Key, d.Key) }
	if i := slices.IndexFunc(g.Keys, same); i >= 0 {
		d.Count += g.Keys[i].Count
		g.Keys = slices.Delete(g.Keys, i, i+1)
	}
	g.Keys = slices.Insert(g.Keys[:min(len(g.Keys), maxGroupKeys-1)], 0, d)
}

// Newest returns the newest denials in groups, the group with the newest one first. There are at most 32 groups of 8
// keys each. They are kept without a file, too. The caller does not change the bytes of keys.
func (r *Recorder) Newest() []Group {
	l := &r.newest
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Group, len(l.groups))
	for i, g := range l.groups {
		out[i] = *g
		out[i].Keys = slices.Clone(g.Keys)
	}
	return out
}

// denial returns what is recorded of a decision, also of one that is logged and no denial. Its Key is in the
// request's memory.
func (n *noting) denial(req *engine.Request, res *engine.Result) Denial {
	node, _ := n.r.config.Where(req.Key)
	key, _ := shard.ClientKey(req.Key)
	d := Denial{
		Time: n.now, Command: command(req), Policy: req.Policy, Key: key, Shadow: req.Shadow,
		Limit: req.Windows[res.Window].Limit, Window: length(req, res), Used: -1, Cost: req.Cost,
		RetryAfter: time.Duration(res.RetryAfter) * time.Millisecond,
		Node:       node, Fail: res.Fail, Client: address(n.from.Addr), ClientName: n.from.Name,
	}
	if res.Fail != engine.FailDefault && n.r.config.Why != nil {
		d.Why = n.r.config.Why(node)
	}
	if res.Again {
		d.Limit = res.Limit // of the first request with the id
	}
	if res.Err == nil && res.Remaining >= 0 {
		d.Used = d.Limit - res.Remaining
	}
	return d
}

// address returns a client's address. A client of the Unix socket has none of its own.
func address(a net.Addr) string {
	switch {
	case a == nil:
		return ""
	case a.Network() == "unix":
		return "unix"
	}
	return a.String()
}
