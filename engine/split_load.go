package engine

import (
	"strconv"

	"github.com/rlproxy/rlproxy/shard"
)

// Who says over how many parts a key is split: the request's SHARDS, else the
// configuration, else measured load.

// HotRule splits the keys that match Glob (* and ?) over Parts sub-shards.
type HotRule struct {
	Glob  string
	Parts int
}

const (
	perPart   = 256  // units of the limit, at least, of a part that load makes
	coolAfter = 5000 // ms below half of the threshold, after which a key is no longer split by load
)

// wanted returns over how many parts the request wants its key to be split, never more
// than the smallest limit. mu is not held.
func (s *splits) wanted(r *Request) int {
	if r.Op > OpFixed || r.Cost == 0 {
		return 1
	}
	n := r.Shards
	for i := 0; n == 0 && i < len(s.engine.config.HotKeys); i++ {
		if rule := &s.engine.config.HotKeys[i]; matches(rule.Glob, r.Key) {
			n = rule.Parts
		}
	}
	if n == 0 && s.byLoad.Load() > 0 {
		s.mu.Lock()
		if l := s.layouts[string(r.Key)]; l != nil && l.load {
			n = l.parts
		}
		s.mu.Unlock()
	}
	return int(min(int64(n), MaxParts, r.smallest()))
}

// smallest returns the smallest of the limits.
func (r *Request) smallest() int64 {
	least := int64(MaxLimit)
	for _, w := range r.Windows[:r.N] {
		least = min(least, w.Limit)
	}
	return least
}

// observe notes the charging calls per second that a part of the key had, of all
// proxies. It splits a key that has too many for one node, and lets it go when it
// has few again.
func (s *splits) observe(r *Request, part int, rate int64) {
	threshold := s.engine.config.HotThreshold
	if threshold <= 0 || rate < threshold && s.byLoad.Load() == 0 || r.Op > OpFixed || r.Shards > 0 {
		return
	}
	now, top := s.engine.elapsed().Milliseconds(), s.engine.topology.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layouts[string(r.Key)]
	if l == nil || !l.load {
		n := int(min(int64(len(top.nodes)), r.smallest()/perPart))
		if rate < threshold || l != nil && !l.told || n < 2 {
			return
		}
		l = s.layout(r.Key, n, top)
		l.load, l.told, l.hot = true, false, now
		s.byLoad.Add(1)
		s.engine.config.Logger.Info("a key is split by load", "parts", n, "calls per second", rate)
		return
	}
	if l.rates == nil {
		l.rates = map[int]int64{}
	}
	l.rates[part] = rate
	sum := int64(0)
	for _, of := range l.rates {
		sum += of
	}
	if sum >= threshold/2 {
		l.hot = now
	} else if now-l.hot > coolAfter {
		s.drop(string(r.Key), l)
		s.engine.config.Logger.Info("a key split by load has cooled", "calls per second", sum)
	}
}

// drop forgets a layout: from now on its key's home is asked, and leases end by
// themselves. mu is held.
func (s *splits) drop(key string, l *layout) {
	delete(s.layouts, key)
	s.known.Store(int64(len(s.layouts)))
	if l.load {
		s.byLoad.Add(-1)
	}
}

// info tells how many keys are split here, and what that took.
func (s *splits) info() []Field {
	s.mu.Lock()
	flights := len(s.flights)
	s.mu.Unlock()
	var fields []Field
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"splits", s.known.Load()}, {"splits_by_load", s.byLoad.Load()}, {"split_flights", int64(flights)},
		{"split_home_calls", s.asked.Load()}, {"split_loans", s.loans.Load()},
		{"split_readings", s.readings.Load()}, {"split_recalls", s.recalls.Load()},
	} {
		fields = append(fields, Field{f.name, strconv.FormatInt(f.n, 10)})
	}
	return fields
}

// spread returns the numbers of n parts, the home's first, on different nodes as far
// as there are any.
func (t *topology) spread(key []byte, n int) []int {
	if t.slots != nil {
		return shard.Spread(nil, key, n, len(t.nodes), func(slot int) int { return int(t.slots[slot]) })
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}
