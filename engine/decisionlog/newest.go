package decisionlog

import (
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/shard"
)

// Denial is the first denial of a key in its window, by the key's state or by a FAIL policy.
type Denial struct {
	Time       time.Time
	Command    string // in lower case
	Policy     string // the policy that gave the limits; empty if the command did
	Key        []byte
	Shadow     bool              // SHADOW would have denied it; nobody was denied
	Limit      int64             // that of the window that denied, with several; 0: an override blocks the key
	Window     time.Duration     // its length; for CL.THROTTLE the time in which a full burst drains; 0 for RL.ACQUIRE
	Used       int64             // of the limit, when it was denied; -1: not known, because a FAIL policy denied
	RetryAfter time.Duration     // as the client was told
	Node       string            // the key's node, its home if it is split: host:port or embedded
	Fail       engine.FailPolicy // what denied in place of the key's state; FailDefault if the state did
	Client     string            // the client's address; unix for a client of the Unix socket
	ClientName string            // as set by CLIENT SETNAME; empty if it was not
}

// maxNewest is how many denials are kept.
const maxNewest = 64

// newest keeps the newest denials.
type newest struct {
	mu  sync.Mutex
	all []Denial // guarded by mu: the newest last
}

func (n *newest) add(d Denial) {
	d.Key, d.Policy = slices.Clone(d.Key), strings.Clone(d.Policy) // neither keeps the text that it is part of
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all[max(len(n.all)-maxNewest+1, 0):], d)
}

// Newest returns at most n of the newest first denials, at most 64, the newest first. They are kept
// without a file, too. The caller does not change their keys.
func (r *Recorder) Newest(n int) []Denial {
	l := &r.newest
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.all[max(len(l.all)-n, 0):])
	slices.Reverse(out)
	return out
}

// denial returns what is recorded of a decision, also of one that is logged and no denial. Its Key is in the
// request's memory.
func (n *noting) denial(req *engine.Request, res *engine.Result) Denial {
	node, _ := n.r.config.Where(req.Key)
	key, _ := shard.ClientKey(req.Key)
	d := Denial{
		Time: n.now, Command: command(req), Policy: req.Policy, Key: key, Shadow: req.Shadow,
		Limit: req.Windows[res.Window].Limit, Window: length(req, res), Used: -1,
		RetryAfter: time.Duration(res.RetryAfter) * time.Millisecond,
		Node:       node, Fail: res.Fail, Client: address(n.from.Addr), ClientName: n.from.Name,
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
