package slots

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// errPanic replaces the answers of an engine that panicked.
var errPanic = errors.New("panic")

// maxRound is the most leases that are renewed or released in one pipeline.
const maxRound = 1024

// run renews and releases leases when they are due, until Close.
func (k *Keeper) run() {
	defer close(k.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(k.wait())
		select {
		case <-k.stop:
			k.guarded(k.last)
			return
		case <-k.wake:
		case <-timer.C:
			k.round()
		}
	}
}

// wait returns the time until the next lease is due.
func (k *Keeper) wait() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.due) == 0 {
		return time.Hour // plan wakes the goroutine
	}
	return time.Duration(k.due[0].at-k.now()) * time.Millisecond
}

// guarded runs a part of a round. A panic costs this part and not the daemon.
func (k *Keeper) guarded(work func()) {
	defer func() {
		if p := recover(); p != nil {
			k.cfg.Logger.Error("panic while renewing leases with CONN", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	work()
}

// round renews leases that are due, and releases those of closed connections.
func (k *Keeper) round() {
	now := k.now()
	var renew []renewal
	var release []*lease
	k.mu.Lock()
	for len(renew)+len(release) < maxRound {
		l := k.next(now)
		switch {
		case l == nil:
		case l.owner != nil:
			renew = append(renew, renewal{l, l.ttl})
			continue
		case l.end <= now: // it has expired
			k.remove(l)
			continue
		default:
			release = append(release, l)
			continue
		}
		break
	}
	freed := k.begin(release)
	k.mu.Unlock()
	k.guarded(func() { k.free(&k.pipe, release, freed) })
	k.guarded(func() { k.renew(renew, now) })
}

// next takes the next lease that is due at now out of due, and returns it; nil if none is. k.mu is held.
func (k *Keeper) next(now int64) *lease {
	if len(k.due) == 0 || k.due[0].at > now {
		return nil
	}
	l := k.due[0]
	k.due.Remove(l)
	return l
}

// last releases all leases of closed connections, whenever they are due.
func (k *Keeper) last() {
	var release []*lease
	k.mu.Lock()
	for _, l := range k.due {
		if l.owner == nil {
			release = append(release, l)
		}
	}
	freed := k.begin(release)
	k.mu.Unlock()
	k.free(&k.pipe, release, freed)
}

// do sends renewals or releases, and counts the lapsed leases that they remove.
func (k *Keeper) do(p *engine.Pipeline) {
	k.cfg.Engine.Do(p)
	for i := range p.Results {
		k.cfg.Lapsed(p.Results[i].Lapsed)
	}
}

// A renewal is a lease that is being renewed, with its TTL in ms when the renewal was sent. An RL.ACQUIRE may change
// that of the lease meanwhile.
type renewal struct {
	lease *lease
	ttl   int64
}

// renew sends renewals, which were made at now.
func (k *Keeper) renew(renewals []renewal, now int64) {
	if len(renewals) == 0 {
		return
	}
	k.pipe.Reset()
	for _, n := range renewals {
		r := k.pipe.Add()
		r.Op, r.Kind, r.Key = engine.OpRenew, limit.Concurrency, []byte(n.lease.key)
		r.Hold = &engine.Hold{ID: n.lease.id, TTL: n.ttl, Release: true}
	}
	answered := false
	defer func() { // also in a panic of the engine
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, n := range renewals {
			l := k.leases[n.lease.leaseName] // another one if it was released and acquired again since
			if l == nil || l.owner == nil {
				continue // released since
			}
			res := engine.Result{Err: errPanic}
			if answered {
				res = k.pipe.Results[i]
			}
			k.renewed(l, n, &res, now)
		}
	}()
	k.do(&k.pipe)
	answered = true
}

// renewed records the answer to a renewal that was sent at sent. An RL.ACQUIRE or RL.RENEW since then, or an RL.ACQUIRE
// that is under way, may have been decided after it, so the lease may be held even if it had ended. k.mu is held.
func (k *Keeper) renewed(l *lease, n renewal, res *engine.Result, sent int64) {
	switch {
	case l.InHeap() || l.claims > 0 || res.Err == nil && res.Renewed:
		k.lasts(l, sent, n.ttl)
	case res.Err != nil && l.end > k.now():
		k.plan(l, k.now()+min(retryAfter, max(n.ttl/12, 1)))
	default:
		k.lost.Add(1)
		k.remove(l)
	}
}

// begin unties leases that are about to be released, and returns what free closes. k.mu is held.
func (k *Keeper) begin(leases []*lease) (freed chan struct{}) {
	freed = make(chan struct{})
	for _, l := range leases {
		l.disown()
		k.due.Remove(l)
		l.freed, l.held, l.claims = freed, false, 0
	}
	return freed
}

// free releases leases. Releases that a node does not answer are retried until the lease has expired.
func (k *Keeper) free(p *engine.Pipeline, leases []*lease, freed chan struct{}) {
	answered := 0
	defer func() { // also in a panic of the engine
		k.mu.Lock()
		for _, l := range leases[answered:] {
			k.keep(l)
		}
		k.mu.Unlock()
		close(freed)
	}()
	for answered < len(leases) {
		some := leases[answered:min(answered+maxRound, len(leases))]
		p.Reset()
		for _, l := range some {
			r := p.Add()
			r.Op, r.Kind, r.Key, r.Hold = engine.OpSettle, limit.Concurrency, []byte(l.key), &engine.Hold{ID: l.id}
		}
		k.do(p)
		k.mu.Lock()
		for i, l := range some {
			if p.Results[i].Err == nil {
				k.remove(l)
			} else {
				k.keep(l)
			}
		}
		answered += len(some)
		k.mu.Unlock()
	}
}

// keep schedules another release of a lease whose release was not answered. k.mu is held.
func (k *Keeper) keep(l *lease) {
	l.freed, l.kept = nil, true
	k.plan(l, k.now()+retryAfter)
}
