package policies

import (
	"net"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/policy"
)

// A Decider decides by policies for the servers that answer gateways, as RL.CHECK does for sessions.
type Decider struct {
	Check ratelimit.Command // RL.CHECK

	engine   engine.Engine
	observer *observe.Observer
	places   chan struct{} // has an element for each pipeline in progress
}

// NewDecider returns a Decider that decides most pipelines at a time, by the policies in effect of a catalog. The
// observer counts the decisions.
func NewDecider(e engine.Engine, o *observe.Observer, catalog *policy.Catalog, most int) *Decider {
	return &Decider{Check: Check(catalog), engine: e, observer: o, places: make(chan struct{}, most)}
}

// May reports whether a user may run RL.CHECK with these words, the first of which is its name.
func (d *Decider) May(u *acl.User, words [][]byte) bool {
	return u.MayUse(d.Check.Name, d.Check.Keys.Key(nil, words, d.Check.Keys.First), true, true)
}

// Decide decides a pipeline for the client at an address. If too many are in progress, it returns false and decides
// nothing.
func (d *Decider) Decide(p *engine.Pipeline, from net.Addr) bool {
	select {
	case d.places <- struct{}{}:
	default:
		return false
	}
	defer func() { <-d.places }()
	sent := time.Now()
	d.engine.Do(p)
	d.observer.Observe(p, sent, time.Since(sent), observe.Sender{Addr: from})
	return true
}

// InProgress returns how many pipelines are being decided.
func (d *Decider) InProgress() int { return len(d.places) }
