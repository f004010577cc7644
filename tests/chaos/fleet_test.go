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

// system is the Redis that the proxies stand in front of.
type system interface {
	url() string
	nodes() []*redistest.Server   // all servers that may hold counts
	servers() []*redistest.Server // the current masters
	masters() string              // names the current masters; changes with a failover
	// whole returns nil if Redis is as it was at the start: all masters serve, the replicas
	// are in sync, and all servers agree on that.
	whole() error
	// faults returns the faults that may happen to the system. busy waits until the given number of
	// further requests was answered.
	faults(rng *rand.Rand, busy func(requests int64)) []fault
}

// fault is something that happens to a fleet.
type fault struct {
	kind     string
	forget   bool // whether masters may forget what they counted
	clock    bool // whether a clock is stepped
	takeover bool // whether a replica becomes the master
	// do has the fault happen and returns when it has. The service heals without undo, which,
	// if not nil, restores what the next fault needs.
	do func() (undo func())
	// able, if not nil, reports whether the fault can happen now.
	able func() bool
}

// fleet is the proxies, the system behind them, and the load.
type fleet struct {
	t        *testing.T
	rng      *rand.Rand
	system   system
	deck     []fault
	members  []*member
	accounts []*account
	tally    *tally
	load     *load
	masters  string    // the masters when last checked
	checked  time.Time // when masters was last checked
	losses   []loss
}

// roundKeys is the number of keys of a round, which is enough for each node to have many.
const roundKeys = 64

// healed waits until all proxies answer for all nodes, and returns the time since from.
func (f *fleet) healed(from time.Time) time.Duration {
	f.t.Helper()
	keys := make([]string, roundKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("round:%d", f.rng.IntN(1e9))
	}
	f.served(keys)
	return time.Since(from)
}

// served waits until all proxies answer for all keys at the same time.
func (f *fleet) served(keys []string) {
	f.t.Helper()
	last := f.round(keys)
	for until := time.Now().Add(proxytest.Patience); last != nil && time.Now().Before(until); <-time.After(time.Millisecond) {
		last = f.round(keys)
	}
	require.NoError(f.t, last, "not healed after %v", proxytest.Patience)
}

// round has all proxies make one round at the same time.
func (f *fleet) round(keys []string) error {
	errs := make([]error, len(f.members))
	var wg sync.WaitGroup
	for i, m := range f.members {
		wg.Add(1)
		go func() { // ends with its round
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

// settled waits until Redis is whole again and all proxies answer.
func (f *fleet) settled() {
	f.t.Helper()
	const long = time.Minute // sentinels are slow to reconfigure an old master
	var last error
	for until := time.Now().Add(long); ; <-time.After(20 * time.Millisecond) {
		if last = f.system.whole(); last == nil || time.Now().After(until) {
			break
		}
	}
	require.NoError(f.t, last, "Redis is not whole again")
	f.healed(time.Now())
}

// strike makes one fault happen, waits until everything works again, and checks what was admitted
// meanwhile.
func (f *fleet) strike(what fault) {
	f.t.Helper()
	f.noteFailover()
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
	f.noteFailover()
	f.tally.befell(what.kind, healed, f.check())
	f.t.Logf("%s %s, healed after %v", began.Format("15:04:05.000"), what.kind, healed.Round(time.Millisecond))
	f.busy(500 + f.rng.Int64N(1000))
}

// noteFailover records a failover that no fault has caused. On a busy machine it may happen at any
// time.
func (f *fleet) noteFailover() {
	masters, now := f.system.masters(), time.Now()
	if masters != f.masters {
		f.t.Logf("a failover that no fault caused: from %s to %s", f.masters, masters)
		f.losses = append(f.losses, loss{f.checked, now, false})
	}
	f.masters, f.checked = masters, now
}

// check checks all accounts, and returns how much was admitted because Redis forgot.
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

// busy waits until the given number of further requests was answered.
func (f *fleet) busy(requests int64) {
	f.t.Helper()
	until := f.tally.count() + requests
	proxytest.Eventually(f.t, "the load", func() bool { return f.tally.count() >= until })
}

// pick returns a random element.
func pick[T any](rng *rand.Rand, all []T) T { return all[rng.IntN(len(all))] }

// common returns the faults that any system may have.
func (f *fleet) common() []fault {
	return []fault{
		{kind: "functions flushed", do: func() func() {
			_, _ = pick(f.rng, f.system.servers()).Ask("FUNCTION", "FLUSH") // a replica refuses
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
