package model

import (
	"math"
	"math/big"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Window is one window of one algorithm.
type Window struct {
	Kind   limit.Kind
	Length int64 // ms, or that of a calendar window; 0 for a rate, and for slots
	Param  int64 // as in limit.Spec
}

// Charge is units that were charged at one time.
type Charge struct {
	At     int64 // us since the epoch, by the clock
	Units  int64
	Limit  int64 // of the window, as it was charged
	Manner int64 // of the request

	over  int64 // those of the units that no limit admitted
	drawn bool  // from an advance
}

// reference is an algorithm by its definition.
type reference struct {
	// used returns the units of all charges of a window, in their order, that count at a time for a manner.
	used func(w Window, all []Charge, us, manner int64) int64

	// most is the exactness: the most units that may be admitted between two times, both included, under one limit and
	// in one manner, whatever came before.
	most func(w Window, limit, manner, from, to int64) int64

	// drains says that units stop to count one after the other, from those of the oldest charge on.
	drains bool

	// down returns the whole ms from a time until at most so many units count. nil: times in answers are rounded up.
	down func(all []Charge, us, units, manner int64) int64
}

// references has the algorithms that have charges, each with its exactness. Times count in ms unless it says otherwise.
var references = map[limit.Kind]reference{
	// A charge counts until its time plus the window, both included. If the limit is above 65,536, times are rounded up
	// to a 65,536th of the window, and none is before that of an older charge. In a window and one ms, at most the limit.
	limit.Slide: {
		used: func(w Window, all []Charge, us, _ int64) (sum int64) {
			t := int64(0)
			for _, c := range all {
				if t = max(t, grid(c.At/1000, c.Limit, w.Length)); us/1000 <= t+w.Length {
					sum += c.Units
				}
			}
			return sum
		},
		most: func(w Window, limit, _, from, to int64) int64 {
			return ((to/1000-from/1000)/(w.Length+1) + 1) * limit
		},
	},

	// A window has as many sub-windows as its Param. They count in full, with the current one; the one before these
	// counts by the share of it that a window still covers, or in full with STRICT. So at most the limit in as many
	// adjacent sub-windows as the Param, and with STRICT in one more.
	limit.Counter: {
		used: func(w Window, all []Charge, us, manner int64) int64 {
			var oldest, rest int64
			for _, c := range all {
				switch age := w.sub(us) - w.sub(c.At); {
				case age == w.Param:
					oldest += c.Units
				case age < w.Param:
					rest += c.Units
				}
			}
			if manner != limit.Strict {
				elapsed := us / 1000 * w.Param % w.Length
				oldest = int64(math.Floor((float64(oldest) * float64(w.Length-elapsed)) / float64(w.Length)))
			}
			return oldest + rest
		},
		most: func(w Window, most, manner, from, to int64) int64 {
			adjacent := w.Param
			if manner == limit.Strict {
				adjacent++
			}
			return ((w.sub(to)-w.sub(from))/adjacent + 1) * most
		},
	},

	// Windows begin at multiples of their length; a calendar window is one day, week, month or year. In each of them, at
	// most the limit.
	limit.Fixed: {
		used: func(w Window, all []Charge, us, _ int64) (sum int64) {
			for _, c := range all {
				if w.sub(c.At) == w.sub(us) && w.has(us) {
					sum += c.Units
				}
			}
			return sum
		},
		most: func(w Window, limit, _, from, to int64) int64 { return (w.sub(to) - w.sub(from) + 1) * limit },
	},

	// Units drain one by one, at an interval in ns that the newest request gives as its manner. In a time, at most the
	// limit and as many as drain in that time.
	limit.GCRA: {
		used: func(_ Window, all []Charge, us, manner int64) int64 {
			return (drained(all, us) - us*1000 + manner - 1) / manner
		},
		most:   func(_ Window, limit, manner, from, to int64) int64 { return limit + (to-from)*1000/manner },
		drains: true,
		down: func(all []Charge, us, units, manner int64) int64 {
			return max(drained(all, us)-us*1000-units*manner, 0) / 1_000_000
		},
	},

	// Tokens are taken from the bucket, and as many as the Param come back per window, in fractions, by the us. What
	// counts is the tokens that are missing, a part of one as a whole. In a time, at most the limit and as many as come.
	limit.Bucket: {
		used: func(w Window, all []Charge, us, _ int64) int64 {
			token := big.NewInt(w.Length * 1000) // in units of which the Param come per us
			missing, at, n := new(big.Int), int64(0), new(big.Int)
			refill := func(us int64) {
				missing.Sub(missing, n.Mul(n.SetInt64(us-at), big.NewInt(w.Param)))
				if at = us; missing.Sign() < 0 {
					missing.SetInt64(0)
				}
			}
			for _, c := range all {
				refill(c.At)
				missing.Add(missing, n.Mul(n.SetInt64(c.Units), token))
			}
			refill(us)
			return n.Div(missing.Add(missing, n.Sub(token, big.NewInt(1))), token).Int64()
		},
		most: func(w Window, limit, _, from, to int64) int64 {
			come := new(big.Int).Mul(big.NewInt(to-from), big.NewInt(w.Param))
			return limit + come.Div(come, big.NewInt(w.Length*1000)).Int64()
		},
		drains: true,
	},
}

// Used returns the units of all charges of a window, in their order, that count at a us for a manner.
func Used(w Window, all []Charge, us, manner int64) int64 {
	if len(all) == 0 {
		return 0
	}
	return references[w.Kind].used(w, all, us, manner)
}

// Most returns the most units that a window may admit between two us, both included, under one limit and in one manner.
func Most(w Window, most, manner, from, to int64) int64 {
	return references[w.Kind].most(w, most, manner, from, to)
}

// sub returns the sub-window that holds a us.
func (w Window) sub(us int64) int64 {
	if period, zone := (limit.Window{Length: w.Length}).Calendar(); period != "" {
		return date(period, zone, us/1000)
	}
	return us / 1000 * w.Param / w.Length
}

// has reports whether a us is in the window, if it is one of a calendar: there is one of these for each date.
func (w Window) has(us int64) bool {
	of := limit.Window{Length: w.Length}
	period, zone := of.Calendar()
	return period == "" || date(period, zone, us/1000) == date(period, zone, of.EndsAt(0)-1)
}

var locations sync.Map // the *time.Location of a zone, by its name

// date returns a number for the day, week, month or year that has a ms.
func date(period, zone string, ms int64) int64 {
	at, known := locations.Load(zone)
	if !known {
		var err error
		if at, err = time.LoadLocation(zone); err != nil {
			panic(err)
		}
		locations.Store(zone, at)
	}
	y, m, d := time.UnixMilli(ms).In(at.(*time.Location)).Date()
	days := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86_400
	return map[string]int64{"day": days, "week": (days + 3) / 7, "month": int64(12*y + int(m)), "year": int64(y)}[period]
}

// grid returns the ms with which RL.SLIDE dates a charge.
func grid(t, most, length int64) int64 {
	if most <= 65536 {
		return t
	}
	g := int64(math.Ceil(float64(length) / 65536))
	return int64(math.Ceil(float64(t)/float64(g))) * g
}

// drained returns the ns at which the units of all charges have drained, at the earliest that of a us.
func drained(all []Charge, us int64) (ns int64) {
	for _, c := range all {
		at := max(ns, c.At*1000)
		ns = at + min(c.Units*c.Manner, math.MaxInt64-at)
	}
	return max(ns, us*1000)
}
