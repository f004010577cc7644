package chaos

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// system is what proxies stand in front of.
type system interface {
	url() string
	nodes() []*redistest.Server   // all that may hold counts
	servers() []*redistest.Server // those of them that have the say now
	masters() string              // names these; changes when there was a failover
	// whole tells whether Redis has all it had at the start: masters, replicas in step,
	// and everybody knows of it.
	whole() error
	// faults are what may befall it. busy returns when so many requests more were answered.
	faults(rng *rand.Rand, busy func(requests int64)) []fault
}

// fault is something that befalls a fleet.
type fault struct {
	kind     string
	forget   bool // masters may forget what they counted
	clock    bool // because their clocks are stepped
	takeover bool // a replica becomes the master
	// do has it happen and returns when it has. The service heals without more; undo,
	// if not nil, brings back what is needed for the next fault.
	do func() (undo func())
	// able, if not nil, tells whether it can happen now.
	able func() bool
}

// fleet is proxies, what they stand in front of, and the load.
type fleet struct {
	t        *testing.T
	rng      *rand.Rand
	system   system
	deck     []fault
	members  []*member
	accounts []*account
	tally    *tally
	load     *load
	masters  string    // as they were when the last fault was over
	looked   time.Time // when that was
	losses   []loss
}

// keys of one round: enough that each node has many.
const roundKeys = 64

// healed waits until all proxies answer for all nodes, and returns how long that took
// since from.
func (f *fleet) healed(from time.Time) time.Duration {
	f.t.Helper()
	keys := make([]string, roundKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("round:%d", f.rng.IntN(1e9))
	}
	f.served(keys)
	return time.Since(from)
}

// served waits until all proxies at once answer for all of the keys.
func (f *fleet) served(keys []string) {
	f.t.Helper()
	last := f.round(keys)
	for until := time.Now().Add(proxytest.Patience); last != nil && time.Now().Before(until); <-time.After(time.Millisecond) {
		last = f.round(keys)
	}
	require.NoError(f.t, last, "not healed after %v", proxytest.Patience)
}

// round is one round of all proxies.
func (f *fleet) round(keys []string) error {
	errs := make([]error, len(f.members))
	var wg sync.WaitGroup
	for i, m := range f.members {
		wg.Add(1)
		go func() { // for one round
			defer wg.Done()
			errs[i] = m.round(keys)
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// settled waits until Redis has all it had, and everybody answers.
func (f *fleet) settled() {
	f.t.Helper()
	const long = time.Minute // sentinels take their time to tell an old master
	var last error
	for until := time.Now().Add(long); ; <-time.After(20 * time.Millisecond) {
		if last = f.system.whole(); last == nil || time.Now().After(until) {
			break
		}
	}
	require.NoError(f.t, last, "Redis is not whole again")
	f.healed(time.Now())
}

// strike has one fault happen, waits for all to be well, and checks what was
// admitted meanwhile.
func (f *fleet) strike(what fault) {
	f.t.Helper()
	f.look()
	began := time.Now()
	undo := what.do()
	healed := f.healed(time.Now())
	if undo != nil {
		undo()
	}
	f.settled()
	if what.forget {
		f.losses = append(f.losses, loss{began, time.Now(), what.clock})
	}
	if what.takeover {
		f.masters = f.system.masters()
	}
	f.look()
	f.tally.befell(what.kind, healed, f.check())
	f.t.Logf("%s %s, healed after %v", began.Format("15:04:05.000"), what.kind, healed.Round(time.Millisecond))
	f.busy(500 + f.rng.Int64N(1000))
}

// look notes a failover that nobody had asked for, as there may be at any time when
// the machine is busy.
func (f *fleet) look() {
	masters, now := f.system.masters(), time.Now()
	if masters != f.masters {
		f.t.Logf("a failover for no reason of ours: %s, then %s", f.masters, masters)
		f.losses = append(f.losses, loss{f.looked, now, false})
	}
	f.masters, f.looked = masters, now
}

// check checks all accounts and returns what was admitted because Redis forgot.
func (f *fleet) check() (lost int64) {
	f.t.Helper()
	for _, a := range f.accounts {
		v := a.check(f.losses, time.Now())
		lost += v.lost
		for _, err := range v.violations {
			f.tally.fault("%v", err)
		}
	}
	require.Empty(f.t, f.tally.faults())
	return lost
}

// busy lets the load go on for so many requests.
func (f *fleet) busy(requests int64) {
	f.t.Helper()
	until := f.tally.count() + requests
	proxytest.Eventually(f.t, "the load", func() bool { return f.tally.count() >= until })
}

// pick returns one of several servers.
func pick[T any](rng *rand.Rand, all []T) T { return all[rng.IntN(len(all))] }

// common are faults of every system.
func (f *fleet) common() []fault {
	return []fault{
		{kind: "scripts flushed", do: func() func() {
			pick(f.rng, f.system.servers()).Do("SCRIPT", "FLUSH")
			return nil
		}},
		{kind: "connections killed", do: func() func() {
			pick(f.rng, f.system.nodes()).Do("CLIENT", "KILL", "TYPE", "normal")
			return nil
		}},
		{kind: "rlproxy killed", do: func() func() {
			pick(f.rng, f.members).restart(f.t)
			return nil
		}},
		{kind: "clock stepped", forget: true, clock: true, do: func() func() {
			s := pick(f.rng, f.system.servers())
			step := time.Duration(100+f.rng.IntN(2900)) * time.Millisecond
			if f.rng.IntN(2) == 0 {
				step = -step
			}
			s.StepClock(step)
			return func() { s.StepClock(0) }
		}},
	}
}
