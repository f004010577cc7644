package chaos

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// admission is one request that a node certainly admitted, between sent and read.
type admission struct {
	sent, read time.Time
	cost       int64
}

// account is one key whose limit is checked, and the requests that are made for it.
type account struct {
	command string
	key     string
	limit   int64
	window  time.Duration
	maxCost int64
	options []any
	split   bool          // whether the key is split over several nodes
	advance time.Duration // for how long proxies may admit from what a node has forgotten that it advanced

	mu         sync.Mutex
	admissions []admission // guarded by mu
	total      int64       // units of all admissions, also of dropped ones; guarded by mu
	counted    time.Time   // end of the last window that had too much; guarded by mu
}

const (
	// lease is how long a shard may use its loan after the home has failed.
	lease = time.Second
	// longestAdvance is the default of advance-time, and the rounding of clocks.
	longestAdvance = 260 * time.Millisecond
	// inFlight is longer than any request takes.
	inFlight = 10 * time.Second
)

// admit records an admission.
func (a *account) admit(sent, read time.Time, cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admissions = append(a.admissions, admission{sent, read, cost})
	a.total += cost
}

// admitted returns the number of units that were admitted.
func (a *account) admitted() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// loss is a time in which Redis may have forgotten what a master counted, which is at most
// the limit. Stepping a clock has the same effect, because what was counted leaves its
// window early. For a split key both the step and its reversal count, because its lease and
// its use are measured by two clocks.
type loss struct {
	from, to time.Time
	clock    bool // whether a clock was stepped
}

// finding is the result of a check.
type finding struct {
	lost       int64   // units admitted beyond the limit because Redis forgot
	violations []error // windows that admitted more than that explains
}

// check looks at the windows that begin when an admission was sent: of the admissions sent
// from then on, those read before the window's end certainly lie in it. Admissions that no
// later check needs are dropped.
func (a *account) check(losses []loss, now time.Time) (v finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.admissions, func(a, b admission) int { return a.sent.Compare(b.sent) })
	for i, first := range a.admissions {
		end := first.sent.Add(a.window)
		if !first.sent.After(a.counted) {
			continue // this excess has been reported
		}
		var sum int64
		for _, one := range a.admissions[i:] {
			if one.sent.After(end) {
				break
			}
			if !one.read.After(end) {
				sum += one.cost
			}
		}
		if sum <= a.limit {
			continue
		}
		a.counted = end
		allowed := a.limit * (1 + a.forgotten(losses, first.sent, end))
		v.lost += min(sum, allowed) - a.limit
		if sum > allowed {
			v.violations = append(v.violations, fmt.Errorf("%s %s: %d admitted within %v from %s, of %d allowed (limit %d)",
				a.command, a.key, sum, a.window, first.sent.Format("15:04:05.000"), allowed, a.limit))
		}
	}
	keep := now.Add(-inFlight - a.window)
	a.admissions = slices.DeleteFunc(a.admissions, func(one admission) bool { return one.sent.Before(keep) })
	return v
}

// forgotten returns how often Redis may have forgotten the limit's usage within a window.
func (a *account) forgotten(losses []loss, from, to time.Time) (times int64) {
	for _, l := range losses {
		end := l.to.Add(a.advance)
		if a.split {
			end = end.Add(lease + a.window)
		}
		if l.from.After(to) || end.Before(from) {
			continue
		}
		times++
		if l.clock && a.split {
			times++
		}
	}
	return times
}

// TestChecksCanFail checks wrong histories, and histories that losses explain.
func TestChecksCanFail(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		admitted []int // ms
		losses   []loss
		lost     int64
		wrong    int
	}{
		"full":           {admitted: []int{0, 500, 1002, 1502}},
		"one too many":   {admitted: []int{0, 500, 900}, wrong: 1},
		"twice":          {admitted: []int{0, 500, 900, 3000, 3001, 3002}, wrong: 2},
		"lost":           {admitted: []int{0, 500, 900}, losses: []loss{{from: at(600), to: at(700)}}, lost: 1},
		"lost before":    {admitted: []int{2000, 2001, 2002}, losses: []loss{{from: at(600), to: at(700)}}, wrong: 1},
		"more than lost": {admitted: []int{0, 500, 900, 901, 902}, losses: []loss{{from: at(600), to: at(700)}}, lost: 2, wrong: 1},
		"two losses":     {admitted: []int{0, 500, 900, 901, 902}, losses: []loss{{from: at(1), to: at(2)}, {from: at(600), to: at(700)}}, lost: 3},
	} {
		a := account{command: "RL.SLIDE", key: name, limit: 2, window: time.Second}
		for _, ms := range c.admitted {
			a.admit(at(ms), at(ms+1), 1)
		}
		v := a.check(c.losses, start)
		require.Len(t, v.violations, c.wrong, name)
		require.Equal(t, c.lost, v.lost, name)
	}
	for _, clock := range []bool{false, true} {
		split := account{limit: 1, window: time.Second, split: true}
		for ms := range 3 {
			split.admit(at(2000+ms), at(2000+ms), 1)
		}
		v := split.check([]loss{{from: at(0), to: at(500), clock: clock}}, start)
		require.Equal(t, clock, len(v.violations) == 0)
		require.Empty(t, split.check(nil, start.Add(time.Minute)).violations, "an excess is reported twice")
		require.Empty(t, split.admissions)
	}
}
