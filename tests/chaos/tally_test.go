package chaos

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// tally counts what a run saw.
type tally struct {
	mu       sync.Mutex // guards all below
	requests int64
	outcomes [wrong + 1]int64
	worst    time.Duration // from a pipeline to its last reply
	rounds   int64         // pipelines
	late     int64         // of them
	lost     int64         // units admitted beyond limits because Redis forgot
	wrongs   []string      // what must not be, the first few
	all      int           // of it
	kinds    []*kind       // of faults, as they first befell
}

// kind sums up one kind of fault.
type kind struct {
	name   string
	times  int
	healed time.Duration // the longest
}

// add takes in one pipeline.
func (t *tally) add(requests int64, outcomes [wrong + 1]int64, took, timeout time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests += requests
	for o, n := range outcomes {
		t.outcomes[o] += n
	}
	t.worst = max(t.worst, took)
	t.rounds++
	if took > timeout+lateness {
		t.late++
	}
}

// count is how many requests there have been.
func (t *tally) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests
}

// fault notes something that must not be.
func (t *tally) fault(format string, args ...any) {
	const shown = 20
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all++; t.all <= shown {
		t.wrongs = append(t.wrongs, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// faults are those noted so far, as text.
func (t *tally) faults() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == 0 {
		return ""
	}
	return fmt.Sprintf("%d in all, the first are:\n%s", t.all, strings.Join(t.wrongs, "\n"))
}

// befell takes in a fault that is over.
func (t *tally) befell(name string, healed time.Duration, lost int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var k *kind
	for _, known := range t.kinds {
		if known.name == name {
			k = known
		}
	}
	if k == nil {
		k = &kind{name: name}
		t.kinds = append(t.kinds, k)
	}
	k.times++
	k.healed = max(k.healed, healed)
	t.lost += lost
}

// String is the summary, as a table.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "| %-37s | times | healed within |\n|---|---|---|\n", "fault")
	times := 0
	for _, k := range t.kinds {
		times += k.times
		fmt.Fprintf(&b, "| %-37s | %d | %v |\n", k.name, k.times, k.healed.Round(time.Millisecond))
	}
	lost := t.requests
	for _, n := range t.outcomes {
		lost -= n
	}
	fmt.Fprintf(&b, "%d faults, %d requests: %d answered, %d by policy, %d refused with an error, %d lost with a killed proxy\n",
		times, t.requests, t.outcomes[answered], t.outcomes[byPolicy], t.outcomes[refused], lost)
	fmt.Fprintf(&b, "%d pipelines: the slowest took %v, %d were late by more than %v\n%d units past limits, all where Redis forgot; %d wrong\n",
		t.rounds, t.worst.Round(time.Millisecond), t.late, lateness, t.lost, t.all)
	return b.String()
}
