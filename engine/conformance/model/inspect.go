package model

import (
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Uses reports whether any window of s has units that are held, or that have lapsed and were not removed yet. Then
// reset_after is not exact, except of RL.SLIDE.
func (k *Key) Uses(s *limit.Spec) bool {
	return slices.ContainsFunc(k.holds, func(h *hold) bool {
		return slices.ContainsFunc(s.Limits(), func(w limit.Window) bool { return h.has(windowOf(s, w)) })
	})
}

// Live reports whether anything can still matter at the clock: a charge that may count, a hold or a known id.
func (k *Key) Live(clock int64) bool {
	for _, h := range k.known {
		if clock/1000 < h.until {
			return true
		}
	}
	return len(k.Inspect(clock)) > 0
}

// Charged reports whether anything was charged or held.
func (k *Key) Charged() bool { return len(k.states) > 0 || len(k.known) > 0 }

// Inspect describes the windows that can still matter, in the order of RL.INSPECT, as of the ms of the clock. The rate is
// -1 of a rate, and where an engine may have forgotten some of the calls, and the limit is 0 where only held units matter.
func (k *Key) Inspect(clock int64) (out []engine.Inspection) {
	now := k.ms(clock, false)
	live := map[Window]bool{}
	for of, s := range k.states {
		live[of] = Used(of, s.charges, now*1000, limit.Strict) > 0
	}
	for _, h := range k.holds {
		for _, w := range h.windows() {
			of := windowOf(&h.spec, w)
			lapsed := []Charge{{At: h.deadline * 1000, Units: h.units, Limit: k.last[of].limit}}
			if now < h.deadline || !h.release && Used(of, lapsed, now*1000, limit.Strict) > 0 {
				live[of] = true
			}
		}
	}
	for of, is := range live {
		if is {
			out = append(out, k.inspect(of, now))
		}
	}
	engine.SortInspections(out)
	return out
}

// inspect describes one window.
func (k *Key) inspect(of Window, now int64) engine.Inspection {
	s := k.states[of]
	if s == nil {
		s = new(state)
	}
	out := engine.Inspection{Kind: of.Kind, Window: of.Length, Param: of.Param, Limit: s.limit}
	manner := int64(0)
	if of.Kind.Rated() {
		manner = s.charges[len(s.charges)-1].Manner
		out.Window = s.limit * manner / 1_000_000
	}
	out.Used = k.charged(of, now*1000, manner)
	out.Held, out.Holds = k.held(of, now*1000)
	out.Remaining = max(s.limit-out.Used, 0)
	out.Rate = s.calls[now/1000] + int64(math.Floor(float64(s.calls[now/1000-1])*float64(1000-now%1000)/1000))
	if s.since > now-2000 || of.Kind.Rated() {
		out.Rate = -1
	}
	return out
}

// Excess returns by how many units a window exceeds the largest limit of its requests. It counts the units charged in the
// window of real time that ends at now, without overruns, and the held units. For RL.SLIDE it is never above 0.
func (k *Key) Excess(clock int64) (most int64) {
	now := k.ms(clock, false)
	for of, largest := range k.largest {
		if of.Kind != limit.Slide && of.Kind != limit.Concurrency {
			continue
		}
		sum, _ := k.held(of, now*1000)
		if s := k.states[of]; s != nil {
			for _, c := range s.charges {
				if at := c.At / 1000; at >= now-of.Length && at <= now {
					sum += c.Units - c.over
				}
			}
		}
		for _, h := range k.holds {
			if now >= h.deadline && h.deadline >= now-of.Length && !h.release && h.has(of) {
				sum += h.units
			}
		}
		most = max(most, sum-largest)
	}
	return most
}
