package engine

// verdict is one window's part in the answer to an entry: n equal requests asked
// together, of which the first granted were admitted.
type verdict struct {
	used   int64 // cost that counted before the entry
	retry  int64 // ms from the clock until this window has room for one more; 0 if it has it now
	last   int64 // ms from the clock to its newest admission, the entry's included; at most 0 unless the clock stepped back
	newest int64 // units in the newest sub-window before the entry, if sub-windows are counted
}

// resetter tells when a window of a request has forgotten everything.
//
// newest is the number of units in the sub-window of the newest admission, last
// the ms from the clock to that admission; clock is the node's, in ms. It returns
// ms from the clock, 0 when nothing is used.
type resetter func(r *Request, w Window, clock, last, newest int64) int64

// decide turns verdicts, one per window of r, into the decision of request j of
// the entry (from 0), as if the entry's requests had come one by one.
//
// With several windows it speaks of the one that denied with the longest retry,
// else of the one with the least remaining; of equals, the one given first.
func (r *Request) decide(vs []verdict, clock, granted, j int64, reset resetter) Decision {
	allowed := j < granted
	charged := min(j+1, granted) * r.Cost // the entry's charges up to and including j
	pick, remaining := -1, int64(0)
	for i := range vs {
		left := r.Windows[i].Limit - vs[i].used - charged
		switch {
		case allowed:
			if pick < 0 || left < remaining {
				pick, remaining = i, left
			}
		case left < r.ask():
			if pick < 0 || vs[i].retry > vs[pick].retry {
				pick, remaining = i, left
			}
		}
	}
	if pick < 0 { // denied by no window: the entry's caller counted wrong
		panic("engine: a denial without a window that denies")
	}
	v, w := vs[pick], r.Windows[pick]
	d := Decision{Allowed: allowed, Limit: w.Limit, Remaining: max(remaining, 0)}
	if !allowed {
		d.RetryAfter = max(v.retry, 1)
	}
	if v.used+charged > 0 {
		d.ResetAfter = max(reset(r, w, clock, v.last, v.newest+charged), 1)
	}
	return d
}
