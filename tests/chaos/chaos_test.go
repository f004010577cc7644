// Package chaos runs three rlproxies in front of a Redis Cluster, and three in front of a
// master with sentinels. They serve many clients while faults happen at random: nodes are
// killed, stopped and moved, and lose their memory or their clock's time. What clients see
// must stay within what rlproxy promises.
//
// CHAOSTIME sets the duration, 10 seconds unless set. CHAOSSEED repeats the choices of
// another run; how they coincide with the load depends on the machine. If it is odd, hot keys
// are decided from advances.
//
// Reading order: chaos_test.go, fleet_test.go (a fault, from its beginning until everything
// works again), cluster_test.go and sentinel_test.go (the faults), load_test.go,
// request_test.go (which replies are right), ledger_test.go (what a limit admits).
package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

func TestMain(m *testing.M) { os.Exit(proxytest.Main(m, "../../cmd/rlproxy")) }

// settings returns the duration of the run and the seed of its choices.
func settings(t *testing.T) (duration time.Duration, seed uint64) {
	t.Helper()
	duration, seed = 10*time.Second, uint64(time.Now().UnixNano())
	var err error
	if text := os.Getenv("CHAOSTIME"); text != "" {
		duration, err = time.ParseDuration(text)
		require.NoError(t, err, "CHAOSTIME")
	}
	if text := os.Getenv("CHAOSSEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CHAOSSEED")
	}
	return duration, seed
}

// newAccounts returns the keys whose limits are checked. Each key has a limit of its own, so
// that a reply shows which key it is about.
func newAccounts() []*account {
	return []*account{
		{command: "RL.SLIDE", key: "slide", limit: 101, window: time.Second, maxCost: 1},
		{command: "RL.SLIDE", key: "small", limit: 7, window: time.Second, maxCost: 1},
		{command: "RL.SLIDE", key: "costly", limit: 151, window: time.Second, maxCost: 5},
		{command: "RL.SLIDE", key: "roomy", limit: 100_003, window: time.Second, maxCost: 1},
		{command: "RL.SLIDE", key: "long", limit: 509, window: 5 * time.Second, maxCost: 3},
		{command: "RL.SLIDE", key: "split", limit: 121, window: time.Second, maxCost: 1, options: []any{"SHARDS", 3}, split: true},
		{command: "RL.COUNTER", key: "counter", limit: 103, window: time.Second, maxCost: 1, options: []any{"STRICT"}},
		{command: "RL.COUNTER", key: "buckets", limit: 107, window: time.Second, maxCost: 2, options: []any{"BUCKETS", 10, "STRICT"}},
	}
}

// TestChaos makes faults happen in both systems, for CHAOSTIME.
func TestChaos(t *testing.T) {
	duration, seed := settings(t)
	t.Logf("to repeat the choices of this run: CHAOSSEED=%d CHAOSTIME=%v", seed, duration)
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		run(t, startCluster(t), duration, seed)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		run(t, startSentinels(t), duration, seed)
	})
}

// run starts the proxies and the load, and has faults happen until the time is over.
func run(t *testing.T, s system, duration time.Duration, seed uint64) {
	f := &fleet{t: t, rng: rand.New(rand.NewPCG(seed, 0)), system: s, accounts: newAccounts(), tally: new(tally)}
	var args []string
	if seed%2 == 1 {
		t.Log("with advances")
		args = []string{"--advance", "yes"}
		for _, a := range f.accounts {
			a.advance = longestAdvance
		}
	}
	for range 3 {
		f.members = append(f.members, startMember(t, s.url(), args...))
	}
	f.settled()
	f.masters, f.checked = s.masters(), time.Now()
	var before []footprint
	for _, m := range f.members {
		before = append(before, m.footprint(t))
	}
	f.load = startLoad(seed, f.members, f.accounts, f.tally)
	t.Cleanup(f.load.finish)
	f.busy(500)
	for until := time.Now().Add(duration); time.Now().Before(until); {
		f.strike(f.draw(append(s.faults(f.rng, f.busy), f.common()...)))
	}
	f.aftermath(before)
	t.Logf("%s\n%s", t.Name(), f.tally)
}

// draw takes the next possible fault from a shuffled deck that has each kind once.
func (f *fleet) draw(kinds []fault) fault {
	for {
		for i, what := range f.deck {
			if what.able == nil || what.able() {
				f.deck = append(f.deck[:i:i], f.deck[i+1:]...)
				return what
			}
		}
		f.deck = append(f.deck, kinds...)
		f.rng.Shuffle(len(f.deck), func(i, j int) { f.deck[i], f.deck[j] = f.deck[j], f.deck[i] })
	}
}

// aftermath checks that the faults leave nothing behind: every slot is served, every limited
// key admits, and the proxies are as small as before.
func (f *fleet) aftermath(before []footprint) {
	began := time.Now()
	every := everySlot()
	const some = 512
	for from := 0; from < len(every); from += some {
		f.served(every[from : from+some])
	}
	f.t.Logf("%d slots answered by all proxies, in %v", len(every), time.Since(began).Round(time.Millisecond))
	for _, a := range f.accounts {
		before := a.admitted()
		proxytest.Eventually(f.t, a.key+" to admit again", func() bool { return a.admitted() > before })
	}
	f.load.finish()
	f.check()
	require.LessOrEqual(f.t, 100*f.tally.late, f.tally.rounds, "too many late pipelines; the slowest took %v", f.tally.worst)
	for i, m := range f.members {
		var now footprint
		proxytest.Eventually(f.t, "the proxy to be as small as before: "+before[i].String(), func() bool {
			now = m.footprint(f.t)
			return now.within(before[i])
		})
		f.t.Logf("%s: before %s, after %s", m.addr, before[i], now)
		m.process.Stop(f.t)
		requireSane(f.t, m.process)
	}
}
