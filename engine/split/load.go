package split

import (
	"fmt"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/shard"
)

// Rule splits the keys that match Glob over a number of shards.
type Rule struct {
	Glob   string // pattern that the whole client's key must match
	Shards int    // number of shards, including the home; 1: do not split
}

const (
	minShardLimit = 256  // least units of the limit per shard of a key that is split because of its load
	coolAfter     = 5000 // ms for which the load must stay below half of the threshold before the split ends
)

// wanted returns the number of shards that the request wants its key to have: its SHARDS,
// else that of the first rule that matches the client's key, else the number chosen because of
// the key's load, else 0. It is never more than the smallest limit. mu is not held.
func (s *Splitter) wanted(r *engine.Request) int {
	if !lendable(r) {
		return 1
	}
	n := s.configured(r)
	if n == 0 && s.byLoad.Load() > 0 {
		s.mu.Lock()
		if l := s.spreads[string(r.Key)]; l != nil && l.load {
			n = l.shards
		}
		s.mu.Unlock()
	}
	return int(min(int64(n), engine.MaxShards, r.Smallest()))
}

// configured returns the request's SHARDS, else the number of shards of the first rule that matches
// the client's key, else 0: then the load decides.
func (s *Splitter) configured(r *engine.Request) int {
	if r.Shards > 0 {
		return r.Shards
	}
	key, _ := shard.ClientKey(r.Key)
	for _, rule := range s.live.Load().Rules {
		if glob.Match(rule.Glob, key) {
			return rule.Shards
		}
	}
	return 0
}

// Observe learns from a shard's answer to r: the number of shards of the key, if the shard is the
// home, and the rate of charging calls that the shard has from all proxies. An answer about units
// that are never lent says nothing of either. Any answer drops spreads that are no longer needed.
func (s *Splitter) Observe(r *engine.Request, shard int, a *wire.Answer) {
	if r.Op == engine.OpDecide && !r.Kind.Additive() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sweep(s.now())
		return
	}
	if a.Status != wire.AtShard {
		s.learn(r.Key, a.Shards)
	}
	s.observeRate(r, shard, a.Rate)
}

// observeRate splits a key whose number of charging calls per second reaches the threshold, and
// ends the split when the rate has been low for a while. It does not split a key whose number of
// shards is configured, nor for requests with ids, which the home alone decides.
func (s *Splitter) observeRate(r *engine.Request, shard int, calls int64) {
	threshold := s.live.Load().Threshold
	if threshold <= 0 || calls < threshold && s.byLoad.Load() == 0 || r.Op != engine.OpDecide || r.Shards > 0 {
		return
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.spreads[string(r.Key)]
	if l == nil || !l.load {
		n := int(min(int64(len(s.nodes.Topology().Nodes)), r.Smallest()/minShardLimit))
		if calls < threshold || l != nil && !l.learned || n < 2 || r.Hold != nil || s.configured(r) > 0 {
			return
		}
		l = s.spread(r.Key, n)
		l.load, l.learned, l.hot = true, false, now
		s.byLoad.Add(1)
		s.config.Logger.Info("splitting a key because of its load",
			"key", clientKey(r.Key), "shards", n, "calls_per_second", calls)
		return
	}
	if l.rates == nil {
		l.rates = map[int]rate{}
	}
	l.rates[shard] = rate{calls, now}
	sum := int64(0)
	for of, r := range l.rates {
		if now-r.at > coolAfter { // no request asks this shard any more
			delete(l.rates, of)
		}
		sum += l.rates[of].calls
	}
	if sum >= threshold/2 {
		l.hot = now
	} else if now-l.hot > coolAfter {
		s.drop(string(r.Key), l)
	}
}

// maxLogged is the most bytes of a key in the log, as in the slow log.
const maxLogged = 128

// clientKey returns the client's key of a name, for the log.
func clientKey(name []byte) string {
	key, _ := shard.ClientKey(name)
	if len(key) > maxLogged {
		return fmt.Sprintf("%s... (%d more bytes)", key[:maxLogged], len(key)-maxLogged)
	}
	return string(key)
}
