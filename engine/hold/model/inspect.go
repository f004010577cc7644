package model

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Uses reports whether any window of s has units that are held, or that have lapsed and were not removed yet. Then
// reset_after of commands that count by sub-windows is not exact.
func (k *Key) Uses(s *limit.Spec) bool {
	return slices.ContainsFunc(k.holds, func(h *hold) bool {
		return slices.ContainsFunc(s.Limits(), func(w limit.Window) bool { return h.has(windowOf(s.Kind, s.Param, w)) })
	})
}

// Live reports whether anything can still matter at the clock: a charge that may count, a hold or a known id.
func (k *Key) Live(clock int64) bool {
	for _, h := range k.known {
		if clock < h.until {
			return true
		}
	}
	return len(k.Inspect(clock)) > 0
}

// Inspect describes the windows that can still matter, in the order of RL.INSPECT, without rates.
func (k *Key) Inspect(clock int64) (out []engine.Inspection) {
	now := k.Now(clock, false)
	all := map[window]engine.Inspection{}
	for _, c := range k.charges {
		n := max(c.buckets, 1)
		live := now <= c.t+c.length
		if c.kind != limit.Slide {
			live = sub(c.window, now) <= sub(c.window, c.t)+n
			if c.kind == limit.Fixed {
				live = sub(c.window, now) == sub(c.window, c.t)
			}
		}
		if live {
			all[c.window] = engine.Inspection{}
		}
	}
	for _, h := range k.holds {
		for _, w := range h.windows {
			of := windowOf(h.kind, h.buckets, w)
			if now < h.deadline || !h.release && now <= grid(h.deadline, k.last[of].limit, w.Length)+w.Length {
				all[of] = engine.Inspection{}
			}
		}
	}
	for of := range all {
		s := engine.Inspection{Kind: of.kind, Window: of.length, Param: of.buckets, Used: k.charged(of, now, false)}
		s.Held, s.Holds = k.held(of, now)
		out = append(out, s)
	}
	engine.SortInspections(out)
	return out
}

// Excess returns by how many units a window exceeds the largest limit of its requests. It counts the units charged in the
// window of real time that ends at now, without overruns, and the held units. For RL.SLIDE it is never above 0.
func (k *Key) Excess(clock int64) (most int64) {
	now := k.Now(clock, false)
	for of, largest := range k.largest {
		sum, _ := k.held(of, now)
		for _, c := range k.charges {
			if c.window == of && c.at >= now-of.length && c.at <= now {
				sum += c.units - c.over
			}
		}
		for _, h := range k.holds {
			if now >= h.deadline && h.deadline >= now-of.length && !h.release && h.has(of) {
				sum += h.units
			}
		}
		if of.kind == limit.Slide || of.kind == limit.Concurrency {
			most = max(most, sum-largest)
		}
	}
	return most
}
