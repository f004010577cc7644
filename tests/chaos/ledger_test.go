package chaos

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// admission is one request that a node admitted for sure, at some time between sent
// and read.
type admission struct {
	sent, read time.Time
	cost       int64
}

// account is one key whose limit is checked, and how it is asked.
type account struct {
	command string
	key     string
	limit   int64
	window  time.Duration
	maxCost int64
	options []any
	split   bool // over several nodes

	mu         sync.Mutex
	admissions []admission // guarded by mu
	total      int64       // guarded by mu: units, also of what has been dropped
	counted    time.Time   // guarded by mu: the end of the last window that had too much
}

const (
	// lease is how much longer a split key's rights may be used.
	lease = time.Second
	// inFlight is longer than any request is under way.
	inFlight = 10 * time.Second
)

// admit notes an admission.
func (a *account) admit(sent, read time.Time, cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admissions = append(a.admissions, admission{sent, read, cost})
	a.total += cost
}

// admitted is how many units have been.
func (a *account) admitted() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// loss is a time in which Redis may have forgotten what a master counted: at most
// the limit. A clock that is stepped does so too, for what was counted leaves its
// window early; for a split key going there and coming back count, as its lease
// and its use are measured by two clocks.
type loss struct {
	from, to time.Time
	clock    bool
}

// verdict is what a check found.
type verdict struct {
	lost       int64   // admitted beyond the limit, where Redis forgot
	violations []error // admitted beyond what that explains
}

// check looks at the windows that begin where an admission was sent: of those sent
// from then on, the ones read within the window lie in it for sure. What can play no
// part in a later check is dropped.
func (a *account) check(losses []loss, now time.Time) (v verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.admissions, func(a, b admission) int { return a.sent.Compare(b.sent) })
	for i, first := range a.admissions {
		end := first.sent.Add(a.window)
		if !first.sent.After(a.counted) {
			continue // what is beyond the limit has been told
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

// forgotten is how often the limit may have been forgotten within a window.
func (a *account) forgotten(losses []loss, from, to time.Time) (times int64) {
	for _, l := range losses {
		end := l.to
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

// TestCheck holds that a check can fail, and that a loss explains as much as it may.
func TestCheck(t *testing.T) {
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
		require.Empty(t, split.check(nil, start.Add(time.Minute)).violations, "nothing is told twice")
		require.Empty(t, split.admissions)
	}
}
