package conformance

import (
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// model computes answers directly from their definition: it keeps every admission and
// looks through all of them for each answer. It shares no code with the engines.
type model struct {
	keys map[string]*modelKey
}

type modelKey struct {
	newest int64 // ms of the newest admission, of any state
	states map[modelID]*modelState
}

type modelID struct {
	kind            limit.Kind
	window, buckets int64
}

type modelState struct {
	modelID
	limit int64 // as last charged
	last  int64
	all   []admission
	calls map[int64]int64 // charging calls by second
}

// admission has the units charged at one ms.
type admission struct {
	at   int64 // as the clock had it
	t    int64 // as the window counts it: RL.SLIDE may round up
	cost int64
}

func newModel() *model { return &model{keys: map[string]*modelKey{}} }

func idOf(r *engine.Request, w limit.Window) modelID { return modelID{r.Kind, w.Length, r.Param} }

// now is the later of the clock and the key's newest admission.
func (m *model) now(key string, clock int64) int64 {
	if k := m.keys[key]; k != nil {
		return max(clock, k.newest)
	}
	return clock
}

// used returns the units that count at now for a window of r.
func (m *model) used(r *engine.Request, w limit.Window, now int64) int64 {
	if k := m.keys[string(r.Key)]; k != nil {
		if s := k.states[idOf(r, w)]; s != nil {
			return s.used(now, r.Strict())
		}
	}
	return 0
}

func (s *modelState) used(now int64, strict bool) int64 {
	n, w := s.buckets, s.window
	var oldest, rest int64
	for _, a := range s.all {
		k := now * n / w
		switch j := a.t * n / w; {
		case s.kind == limit.Slide:
			if now <= a.t+w {
				rest += a.cost
			}
		case s.kind == limit.Fixed:
			if j == k {
				rest += a.cost
			}
		case j == k-n:
			oldest += a.cost
		case j > k-n:
			rest += a.cost
		}
	}
	if !strict {
		elapsed := now * n % w
		oldest = int64(math.Floor((float64(oldest) * float64(w-elapsed)) / float64(w)))
	}
	return oldest + rest
}

// hasRoom reports whether window i of r has room for one more call at the clock.
func (m *model) hasRoom(r *engine.Request, i int, clock int64) bool {
	w := r.Windows[i]
	return m.used(r, w, m.now(string(r.Key), clock))+max(r.Cost, 1) <= w.Limit
}

func (m *model) admits(r *engine.Request, clock int64) bool {
	for i := range r.N {
		if !m.hasRoom(r, i, clock) {
			return false
		}
	}
	return true
}

// smallest returns the smallest r >= from for which a condition is true that stays true
// for all larger r.
func smallest(from int64, holds func(r int64) bool) int64 {
	if holds(from) {
		return from
	}
	fails, step := from, int64(1)
	for !holds(fails + step) {
		fails += step
		step *= 2
	}
	for holdsAt := fails + step; ; {
		if holdsAt-fails == 1 {
			return holdsAt
		}
		if mid := (fails + holdsAt) / 2; holds(mid) {
			holdsAt = mid
		} else {
			fails = mid
		}
	}
}

// do answers a decision and charges it if it is admitted.
func (m *model) do(r *engine.Request, clock int64) limit.Decision {
	allowed := m.admits(r, clock)
	if allowed && r.Cost > 0 {
		m.charge(r, clock)
	}
	now := m.now(string(r.Key), clock)
	pick, best := -1, limit.Decision{}
	for i := range r.N {
		w := r.Windows[i]
		d := limit.Decision{Allowed: allowed, Window: i, Limit: w.Limit, Remaining: max(w.Limit-m.used(r, w, now), 0)}
		if !allowed {
			if m.hasRoom(r, i, clock) {
				continue
			}
			d.RetryAfter = smallest(1, func(ms int64) bool { return m.hasRoom(r, i, clock+ms) })
		}
		if pick < 0 || allowed && d.Remaining < best.Remaining || d.RetryAfter > best.RetryAfter {
			pick, best = i, d
		}
	}
	best.ResetAfter = smallest(0, func(ms int64) bool { return m.unused(r, pick, clock+ms) })
	return best
}

// unused reports whether window i of r counts nothing at the clock.
func (m *model) unused(r *engine.Request, i int, clock int64) bool {
	return m.used(r, r.Windows[i], m.now(string(r.Key), clock)) == 0
}

func (m *model) charge(r *engine.Request, clock int64) {
	k := m.keys[string(r.Key)]
	if k == nil {
		k = &modelKey{states: map[modelID]*modelState{}}
		m.keys[string(r.Key)] = k
	}
	now := max(clock, k.newest)
	k.newest = now
	for i := range r.N {
		w := r.Windows[i]
		id := idOf(r, w)
		s := k.states[id]
		if s == nil {
			s = &modelState{modelID: id, calls: map[int64]int64{}}
			k.states[id] = s
		}
		s.charge(now, w, r.Cost)
	}
}

func (s *modelState) charge(now int64, w limit.Window, cost int64) {
	s.limit, s.last = w.Limit, now
	s.calls[now/1000]++
	// Admissions that can no longer matter are dropped, or a run would take a day.
	s.all = slices.DeleteFunc(s.all, func(a admission) bool { return a.t+2*s.window+1 < now })
	t := now
	if s.kind == limit.Slide {
		if w.Limit > 65536 {
			g := int64(math.Ceil(float64(s.window) / 65536))
			for t%g != 0 {
				t++
			}
		}
		for _, a := range s.all {
			t = max(t, a.t)
		}
	}
	if i := len(s.all) - 1; i >= 0 && s.all[i].at == now && s.all[i].t == t {
		s.all[i].cost += cost
		return
	}
	s.all = append(s.all, admission{now, t, cost})
}

// trailing returns the units admitted in the window that ends at now, both ends included,
// by the clock alone.
func (m *model) trailing(r *engine.Request, w limit.Window, now int64) int64 {
	var sum int64
	for _, a := range m.keys[string(r.Key)].states[idOf(r, w)].all {
		if a.at >= now-w.Length && a.at <= now {
			sum += a.cost
		}
	}
	return sum
}

// live reports whether a state can still matter at now.
func (s *modelState) live(now int64) bool {
	switch s.kind {
	case limit.Slide:
		return now <= s.all[len(s.all)-1].t+s.window
	case limit.Counter:
		return now*s.buckets/s.window <= s.last*s.buckets/s.window+s.buckets
	}
	return now/s.window == s.last/s.window
}

// inspect describes the states that can still matter, in no order.
func (m *model) inspect(key string, clock int64) []engine.Inspection {
	k := m.keys[key]
	if k == nil {
		return nil
	}
	var out []engine.Inspection
	now := max(clock, k.newest)
	for _, s := range k.states {
		if !s.live(now) {
			continue
		}
		used, second := s.used(now, false), now/1000
		rate := s.calls[second] + int64(math.Floor(float64(s.calls[second-1])*float64(1000-now%1000)/1000))
		out = append(out, engine.Inspection{Kind: s.kind, Window: s.window, Param: s.buckets, Used: used,
			Limit: s.limit, Remaining: max(s.limit-used, 0), Rate: rate})
	}
	return out
}
