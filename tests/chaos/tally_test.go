package chaos

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// tally counts what happened in a run.
type tally struct {
	mu       sync.Mutex // guards all fields below
	requests int64
	outcomes [wrong + 1]int64
	worst    time.Duration // longest time from a pipeline to its last reply
	rounds   int64         // number of pipelines
	late     int64         // number of late pipelines
	lost     int64         // units admitted beyond limits because Redis forgot
	wrongs   []string      // descriptions of the first wrong replies
	all      int           // number of wrong replies
	kinds    []*kind       // kinds of faults, in the order of their first occurrence
}

// kind sums up one kind of fault.
type kind struct {
	name   string
	times  int
	healed time.Duration // longest time to heal
}

// add counts one pipeline.
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

// count returns the number of requests so far.
func (t *tally) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests
}

// fault records something that must not happen.
func (t *tally) fault(format string, args ...any) {
	const shown = 20
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all++; t.all <= shown {
		t.wrongs = append(t.wrongs, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// faults returns what was recorded so far, as text.
func (t *tally) faults() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == 0 {
		return ""
	}
	return fmt.Sprintf("%d in all, the first are:\n%s", t.all, strings.Join(t.wrongs, "\n"))
}

// befell counts a fault that is over.
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

// String returns the summary, which begins with a table of the faults.
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
	fmt.Fprintf(&b, "%d faults, %d requests: %d answered, %d by FAIL policy, %d refused with an error, %d lost with a killed proxy\n",
		times, t.requests, t.outcomes[answered], t.outcomes[byFail], t.outcomes[refused], lost)
	fmt.Fprintf(&b, "%d pipelines: the slowest took %v, %d were late by more than %v\n%d units beyond limits, all because Redis forgot; %d wrong\n",
		t.rounds, t.worst.Round(time.Millisecond), t.late, lateness, t.lost, t.all)
	return b.String()
}
