package tests

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answer is one reply to a rate-limit command. The node decided between sent and read;
// both are times of this machine, whose clock the nodes use too.
type answer struct {
	sent, read time.Time
	cost       int64
	decision
}

// unknown reports whether a FAIL policy answered: the node may have charged the request.
func (a *answer) unknown() bool { return a.remaining < 0 }

// history is every answer about one key with one limit and window.
type history struct {
	limit   int64
	window  time.Duration
	answers []answer
}

// slack is the error that rounding to whole milliseconds may cause, on both sides
// together.
const slack = 2 * time.Millisecond

// filter returns the answers that keep accepts, in the order in which they were sent.
func (h *history) filter(keep func(a *answer) bool) []answer {
	var kept []answer
	for i := range h.answers {
		if keep(&h.answers[i]) {
			kept = append(kept, h.answers[i])
		}
	}
	slices.SortFunc(kept, func(a, b answer) int { return a.sent.Compare(b.sent) })
	return kept
}

// admitted returns the answers that certainly charged.
func (h *history) admitted() []answer {
	return h.filter(func(a *answer) bool { return a.allowed == 1 && !a.unknown() })
}

// denied returns the node's denials.
func (h *history) denied() []answer {
	return h.filter(func(a *answer) bool { return a.allowed == 0 && !a.unknown() })
}

// lost returns the answers by FAIL policy: the node may have charged them.
func (h *history) lost() []answer { return h.filter((*answer).unknown) }

// checkLimit checks that no window certainly admitted more than the limit. It looks at the
// windows that begin when an admission was sent: of the admissions sent from then on,
// those read before the window's end certainly lie in it.
func (h *history) checkLimit() error {
	admitted := h.admitted()
	for i, first := range admitted {
		end := first.sent.Add(h.window)
		var sum int64
		for _, a := range admitted[i:] {
			if a.sent.After(end) {
				break
			}
			if !a.read.After(end) {
				sum += a.cost
			}
		}
		if sum > h.limit {
			return fmt.Errorf("%d admitted within %v, limit %d", sum, h.window, h.limit)
		}
	}
	return nil
}

// checkOwnLimits is checkLimit for calls that bring different limits: the window that ends
// with an admission certainly admitted no more than the limit of that admission.
func (h *history) checkOwnLimits() error {
	admitted := h.admitted()
	for i, last := range admitted {
		sum := last.cost
		for j := i - 1; j >= 0 && !admitted[j].sent.Before(last.read.Add(-h.window)); j-- {
			if !admitted[j].read.After(last.sent) {
				sum += admitted[j].cost
			}
		}
		if sum > last.limit {
			return fmt.Errorf("%d admitted within %v, limit %d", sum, h.window, last.limit)
		}
	}
	return nil
}

// checkWeighed checks what RL.COUNTER without STRICT promises: what was admitted in the
// current fixed window, plus the overlapping share of the previous one, is no more than
// the limit. holders is the number of shards, each of which rounds its share down.
func (h *history) checkWeighed(holders int64) error {
	length := h.window.Milliseconds()
	of := func(t time.Time) int64 { return t.UnixMilli() / length }
	sums := make(map[int64]int64) // what was certainly admitted, by window
	admitted := h.admitted()
	slices.SortFunc(admitted, func(a, b answer) int { return a.read.Compare(b.read) })
	for i, last := range admitted {
		now := of(last.read)
		if of(last.sent) != now {
			continue
		}
		sums[now] += last.cost
		sum := last.cost
		for j := i - 1; j >= 0 && of(admitted[j].read) == now; j-- {
			if of(admitted[j].sent) == now && !admitted[j].read.After(last.sent) {
				sum += admitted[j].cost
			}
		}
		sum += sums[now-1] * (length - last.read.UnixMilli()%length) / length
		if sum > h.limit+holders-1 {
			return fmt.Errorf("%d weighed within %v, limit %d", sum, h.window, h.limit)
		}
	}
	return nil
}

// checkFixed checks that no fixed window certainly admitted more than the limit.
func (h *history) checkFixed() error {
	sums, length := make(map[int64]int64), h.window.Milliseconds()
	for _, a := range h.admitted() {
		if k := a.sent.UnixMilli() / length; k == a.read.UnixMilli()/length {
			if sums[k] += a.cost; sums[k] > h.limit {
				return fmt.Errorf("%d admitted in one window of %v, limit %d", sums[k], h.window, h.limit)
			}
		}
	}
	return nil
}

// checkBucket checks that nothing was taken from an empty bucket. The history's limit is its capacity.
func (h *history) checkBucket(refill int64) error {
	// A request may have been charged up to brief before its answer was read. Those that took longer are left out.
	const brief = 20 * time.Millisecond
	perSecond := float64(refill) / h.window.Seconds()
	admitted := h.filter(func(a *answer) bool { return a.allowed == 1 && !a.unknown() && a.read.Sub(a.sent) <= brief })
	slices.SortFunc(admitted, func(a, b answer) int { return a.read.Compare(b.read) })
	taken := 0.0
	for i, a := range admitted {
		if i > 0 {
			taken = max(0, taken-perSecond*a.read.Sub(admitted[i-1].read).Seconds())
		}
		taken += float64(a.cost)
		if taken > float64(h.limit)+perSecond*(brief+slack).Seconds() {
			return fmt.Errorf("%.0f taken from a bucket of %d", taken, h.limit)
		}
	}
	return nil
}

// interval is when something happened: between two moments.
type interval struct{ from, to time.Time }

// between returns the histories between events after which units count anew.
func (h *history) between(events []interval) (all []history) {
	var from time.Time
	for i := range len(events) + 1 {
		until := time.Now()
		if i < len(events) {
			until = events[i].from
		}
		all = append(all, history{limit: h.limit, window: h.window,
			answers: h.filter(func(a *answer) bool { return a.sent.After(from) && a.read.Before(until) })})
		if i < len(events) {
			from = events[i].to
		}
	}
	return all
}

// checkDenials checks that each denial was right: whatever may have been charged before it
// and may still be in the window leaves no room for its cost. A request whose proxy was
// killed may be charged after the client has seen the loss, so the time of an unknown
// answer is taken to be off by as much again as the slowest answer took.
func (h *history) checkDenials() error {
	charged := h.filter(func(a *answer) bool { return a.allowed == 1 || a.unknown() })
	longest := time.Duration(0)
	for _, a := range charged {
		longest = max(longest, a.read.Sub(a.sent))
	}
	for _, d := range h.denied() {
		from := d.sent.Add(-h.window - slack)
		i, _ := slices.BinarySearchFunc(charged, from.Add(-2*longest), func(a answer, t time.Time) int { return a.sent.Compare(t) })
		var most int64
		for ; i < len(charged) && !charged[i].sent.After(d.read); i++ {
			if !charged[i].read.Before(from) || charged[i].unknown() {
				most += charged[i].cost
			}
		}
		if most+d.cost <= h.limit {
			return fmt.Errorf("denied cost %d at %s although at most %d of %d was used",
				d.cost, d.sent.UTC().Format("15:04:05.000"), most, h.limit)
		}
	}
	return nil
}

// once checks that each unit was admitted once, for a window that no unit has left yet: no two
// answers have the same remaining.
func (h *history) once() error {
	var left []int64
	for _, a := range h.admitted() {
		left = append(left, a.remaining)
	}
	slices.Sort(left)
	for i := 1; i < len(left); i++ {
		if left[i] == left[i-1] {
			return fmt.Errorf("two admissions left %d", left[i])
		}
	}
	return nil
}

// TestHistoryChecksCanFail applies the checks to wrong histories.
func TestHistoryChecksCanFail(t *testing.T) {
	t.Parallel()
	at := func(ms int, allowed, remaining int64) answer {
		sent := time.UnixMilli(int64(1_000_000 + ms))
		return answer{sent, sent.Add(time.Millisecond), 1, decision{allowed: allowed, remaining: remaining}}
	}
	good := []answer{at(0, 1, 1), at(100, 1, 0), at(500, 0, 0), at(1002, 1, 0), at(1101, 1, 0)}
	for name, c := range map[string]struct {
		answers []answer
		want    string
	}{
		"good":       {good, ""},
		"too many":   {append(slices.Clone(good), at(700, 1, 0)), "3 admitted within 1s, limit 2"},
		"too few":    {[]answer{at(0, 1, 1), at(1, 0, 0)}, "denied cost 1 at 00:16:40.001 although at most 1 of 2 was used"},
		"long ago":   {[]answer{at(0, 1, 1), at(1, 1, 0), at(1500, 0, 0)}, "denied cost 1 at 00:16:41.500 although at most 0 of 2 was used"},
		"maybe used": {[]answer{at(0, 1, 1), at(10, 0, -1), at(20, 0, 0)}, ""},
	} {
		h := history{limit: 2, window: time.Second, answers: c.answers}
		if err := errors.Join(h.checkLimit(), h.checkDenials()); c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, c.want, name)
		}
	}
	require.EqualError(t, (&history{answers: good}).once(), "two admissions left 0")
	require.NoError(t, (&history{answers: good[:2]}).once())

	// Windows begin at whole seconds. The first of these answers may have been charged in the
	// previous window.
	full := []answer{at(-1, 1, 1), at(500, 1, 0), at(600, 1, 1), at(1600, 1, 0), at(1700, 1, 0)}
	for i := range full {
		full[i].limit = 3
	}
	h := history{limit: 2, window: time.Second, answers: full}
	require.NoError(t, h.checkFixed())
	require.NoError(t, h.checkWeighed(1))
	require.NoError(t, h.checkOwnLimits())
	h.answers = append(slices.Clone(full), at(1100, 1, 0))
	require.EqualError(t, h.checkFixed(), "3 admitted in one window of 1s, limit 2")
	h.answers = append(slices.Clone(full[:4]), at(1650, 1, 0), at(1100, 1, 0))
	require.EqualError(t, h.checkWeighed(1), "3 weighed within 1s, limit 2")
	require.NoError(t, h.checkWeighed(2))
	full[4].limit, h.answers = 1, full
	require.EqualError(t, h.checkOwnLimits(), "2 admitted within 1s, limit 1")

	bucket := history{limit: 2, window: time.Second, answers: []answer{at(0, 1, 0), at(0, 1, 0), at(1010, 1, 0)}}
	require.NoError(t, bucket.checkBucket(1))
	bucket.answers = append(bucket.answers, at(1020, 1, 0), at(1030, 1, 0))
	require.EqualError(t, bucket.checkBucket(1), "3 taken from a bucket of 2")
	between := h.between([]interval{{at(550, 0, 0).sent, at(1500, 0, 0).sent}})
	require.Len(t, between, 2)
	require.Len(t, between[0].answers, 2)
	require.Len(t, between[1].answers, 2)
}
