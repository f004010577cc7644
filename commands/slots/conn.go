package slots

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// The errors of an RL.ACQUIRE with CONN that cannot be tied. It is not sent to the engine.
const (
	errNoKeeper = "ERR CONN is not available here"
	errNoMemory = "ERR cannot tie another lease to a connection: maxmemory-clients is reached"
)

// Conn is the connection of a client. The zero value has no Keeper, and nothing can be tied to it.
type Conn struct {
	keeper *Keeper
	// leases tied to the connection. Only its session creates the map; Keeper.mu guards the entries
	leases map[*lease]struct{}
}

// Conn returns a connection that nothing is tied to. k may be nil.
func (k *Keeper) Conn() Conn { return Conn{keeper: k} }

// Claim announces an RL.ACQUIRE that is about to be sent to the engine, and whether it ties its lease to the
// connection. Done must follow. If the lease is being released for another connection, Claim waits until that
// is answered. It returns an error reply, or "".
//
// It takes the lease from another connection before the request is sent, since that connection may be
// closed in between, which would release the lease.
func (c *Conn) Claim(r *engine.Request, tied bool) string {
	k := c.keeper
	switch {
	case r.Op != engine.OpDecide:
		return ""
	case k == nil && tied:
		return errNoKeeper
	case r.Cost == 0 || !tied && (k == nil || k.tied.Load() == 0):
		return ""
	}
	n := leaseName{string(r.Key), r.Hold.ID}
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.find(n)
	if !tied {
		if l != nil {
			k.remove(l)
		}
		return ""
	}
	if l == nil || l.owner != c {
		if len(c.leases) >= MaxConn {
			return reply.ErrConnSlots
		}
	}
	switch {
	case l == nil:
		if !k.cfg.Reserve(size(n.key)) {
			return errNoMemory
		}
		l = k.add(n, c)
		l.ttl = r.Hold.TTL
	case l.owner != c:
		l.disown()
		l.claims = 0 // the other connection no longer answers for it
		c.own(l)
	}
	l.claims++
	k.lasts(l, k.now(), r.Hold.TTL) // the answer may come late, or never
	return ""
}

// find returns the lease of that name, once no release of it is under way; nil if there is none. k.mu is
// held, but not while find waits.
func (k *Keeper) find(n leaseName) *lease {
	for {
		l := k.leases[n]
		if l == nil || l.freed == nil {
			return l
		}
		freed := l.freed
		k.mu.Unlock()
		<-freed
		k.mu.Lock()
	}
}

// Done records the answers to an RL.ACQUIRE that Claim announced, to an RL.RENEW or to an RL.RELEASE.
func (c *Conn) Done(requests []engine.Request, results []engine.Result, tied bool) {
	k := c.keeper
	if k == nil || k.tied.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range requests {
		r := &requests[i]
		l := k.leases[leaseName{string(r.Key), r.Hold.ID}]
		switch {
		case l == nil:
		case r.Op == engine.OpDecide && tied && r.Cost > 0 && l.owner == c:
			k.acquired(l, r, &results[i])
		case r.Op == engine.OpRenew && (results[i].Renewed || results[i].Err != nil):
			k.lasts(l, k.now(), r.Hold.TTL) // if it was not answered, it may have
		case r.Op == engine.OpSettle && r.Kind == limit.Concurrency && results[i].Err == nil:
			if l.held = false; l.claims == 0 && l.freed == nil {
				k.remove(l)
			}
		}
	}
}

// acquired records the answer to an RL.ACQUIRE. A lease that a FAIL policy allowed may be held: the
// first renewal shows that. One that it denied stays as it was, and so does one that was waited for (BLOCK) in vain:
// perhaps the engine was not asked for it. k.mu is held.
func (k *Keeper) acquired(l *lease, r *engine.Request, res *engine.Result) {
	l.claims--
	switch {
	case res.Err == nil && res.Allowed:
		l.held, l.kept, l.ttl = true, false, r.Hold.TTL
		k.lasts(l, k.now(), r.Hold.TTL)
	case res.Err == nil && res.Fail == engine.FailDefault && r.Block == 0:
		l.held, l.kept = false, false // it had expired, and too few slots were free
	}
	switch {
	case l.held || l.claims > 0:
	case l.kept:
		l.disown()
		k.plan(l, k.now()+retryAfter)
	default:
		k.remove(l)
	}
}

// Release releases all leases tied to the connection, which is closed or reset. Releases that a node does
// not answer are retried later.
func (c *Conn) Release() {
	if c.leases == nil { // nothing was ever tied to it
		return
	}
	k := c.keeper
	k.mu.Lock()
	mine := make([]*lease, 0, len(c.leases))
	for l := range c.leases {
		mine = append(mine, l)
	}
	freed := k.begin(mine)
	k.mu.Unlock()
	var p engine.Pipeline
	k.free(&p, mine, freed)
}

func (c *Conn) own(l *lease) {
	if c.leases == nil {
		c.leases = make(map[*lease]struct{})
	}
	c.leases[l] = struct{}{}
	l.owner = c
}

func (l *lease) disown() {
	if l.owner != nil {
		delete(l.owner.leases, l)
		l.owner = nil
	}
}
