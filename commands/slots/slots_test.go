package slots

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine"
)

func TestLeasesAreRenewedWhileTheirConnectionIsOpen(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	require.True(t, w.acquire(&c, "a", true))
	require.True(t, w.acquire(&c, "b", true))
	require.True(t, w.acquire(&c, "loose", false))
	for round := range 10 {
		w.pass(4000)
		w.eventually(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.renewals) > round }, "a third of the TTL has passed")
	}
	require.True(t, w.lives("a"))
	require.True(t, w.lives("b"))
	require.False(t, w.lives("loose"), "it is not tied")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.renewals {
		require.Equal(t, 2, n, "both together")
	}
}

func TestLeasesAreReleasedWhenTheirConnectionCloses(t *testing.T) {
	w := newWorld(t)
	c, other := w.Conn(), w.Conn()
	require.True(t, w.acquire(&c, "a", true))
	require.True(t, w.acquire(&c, "b", true))
	require.True(t, w.acquire(&other, "c", true))
	require.True(t, w.acquire(&c, "loose", false))
	c.Release()
	require.Equal(t, []bool{false, false, true, true}, []bool{w.lives("a"), w.lives("b"), w.lives("c"), w.lives("loose")})
	require.EqualValues(t, 1, w.tied.Load())
	c.Release() // as a session does that was told to end, and ends
	other.Release()
	require.False(t, w.lives("c"))
}

func TestAReleaseThatIsNotAnsweredIsTriedAgainUntilTheTTL(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	w.set(func() { w.down = true })
	c.Release()
	require.EqualValues(t, 1, w.tied.Load())
	w.pass(retryAfter)
	w.eventually(func() bool { return w.count(&w.settling) == 2 }, "tried again")
	require.True(t, w.lives("a"))
	w.set(func() { w.down = false })
	w.pass(retryAfter)
	w.eventually(func() bool { return !w.lives("a") && w.tied.Load() == 0 }, "released")

	w.acquire(&c, "b", true)
	w.set(func() { w.down = true })
	c.Release()
	w.pass(ends(0, 12_000))
	w.eventually(func() bool { return w.tied.Load() == 0 }, "the TTL has ended it")
}

func TestCloseReleasesWhatWasNotAnswered(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	w.set(func() { w.down = true })
	c.Release()
	require.True(t, w.lives("a"))
	w.set(func() { w.down = false })
	w.guarded(w.last) // what Close does
	require.False(t, w.lives("a"))
	require.Zero(t, w.tied.Load())
}

func TestALeaseThatHasEndedIsForgottenAndNotRevived(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	w.set(func() { clear(w.live) }) // RL.RESET
	w.pass(4000)
	w.eventually(func() bool { return w.tied.Load() == 0 }, "a renewal answers 0")
	require.False(t, w.lives("a"))
	require.EqualValues(t, 1, w.lost.Load())
	require.Equal(t, "slot_leases_lost 1", w.Stats()[1].Name+" "+w.Stats()[1].String())
}

// Others wait for the key, so the client, which acquires its lease again, waits behind them. The engine is not asked.
func TestALeaseStaysTiedIfItWasAskedForAgainAndWaitedInVain(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	for _, id := range []string{"a", "b"} {
		p := request(engine.OpDecide, id)
		p.Requests[0].Block = 1000
		require.Empty(t, c.Claim(&p.Requests[0], true))
		c.Done(p.Requests, make([]engine.Result, 1), true)
		require.EqualValues(t, 1, w.tied.Load(), "a is tied, and b was never held")
	}
	w.pass(4000)
	w.eventually(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.renewals) == 1 }, "it is renewed")
	c.Release()
	require.False(t, w.lives("a"))
}

func TestRenewalsAreTriedAgainWhileANodeIsAway(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	w.set(func() { w.down = true })
	w.pass(4000)
	w.pass(1000)
	w.set(func() { w.down = false })
	w.pass(1000)
	w.eventually(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.renewals) == 1 }, "renewed in time")
	w.pass(11_000)
	require.True(t, w.lives("a"))
	w.set(func() { w.down = true })
	w.pass(13_000)
	w.eventually(func() bool { return w.tied.Load() == 0 }, "it has ended")
}

// The client acquires its lease again with a longer TTL while a renewal with the former one is under way,
// and the node answers the renewal last: the lease has the shorter TTL.
func TestARenewalThatIsAnsweredAfterAnAcquireDoesNotLoseTheLease(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	late := make(chan struct{})
	w.set(func() { w.late = late })
	w.pass(4000)
	w.eventually(func() bool { return w.count(&w.renewing) == 1 }, "the renewal is under way")
	p := request(engine.OpDecide, "a")
	p.Requests[0].Hold.TTL = 600_000
	require.Empty(t, c.Claim(&p.Requests[0], true))
	fake{w}.Do(p)
	c.Done(p.Requests, p.Results, true)
	w.set(func() { w.late = nil })
	close(late)
	for range 10 {
		n := w.count(&w.renewing)
		w.pass(4000)
		if n == 1 {
			w.eventually(func() bool { return w.count(&w.renewing) == 2 }, "it is renewed while it lives")
		}
		require.True(t, w.lives("a"))
	}
}

// The answer waits for another command of the same pipeline, whose node hangs.
func TestALeaseIsRenewedBeforeItsAcquireIsAnswered(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	p := request(engine.OpDecide, "a")
	require.Empty(t, c.Claim(&p.Requests[0], true))
	fake{w}.Do(p)
	for round := range 5 {
		w.pass(4000)
		w.eventually(func() bool { return w.count(&w.renewing) == round+1 }, "a third of the TTL has passed")
		require.True(t, w.lives("a"))
		if round == 3 {
			c.Done(p.Requests, p.Results, true)
		}
	}
	require.EqualValues(t, 1, w.tied.Load())
}

// The client acquires its lease again with another TTL, and the node's answer does not come. It may have run the request or not.
func TestALeaseIsRenewedInTimeAfterAnAcquireThatIsNotAnswered(t *testing.T) {
	for _, ttl := range []int64{2000, 600_000} { // shorter and longer than before
		for _, run := range []bool{false, true} {
			for _, fail := range []engine.FailPolicy{engine.FailOpen, engine.FailClosed, engine.FailError} {
				w := newWorld(t)
				c := w.Conn()
				w.acquire(&c, "a", true)
				p := request(engine.OpDecide, "a")
				p.Requests[0].Hold.TTL = ttl
				require.Empty(t, c.Claim(&p.Requests[0], true))
				if p.Grow(); run {
					fake{w}.Do(p)
				}
				p.Results[0] = engine.Result{Fail: fail}
				p.Results[0].Allowed = fail == engine.FailOpen
				if fail == engine.FailError {
					p.Results[0].Err = &engine.Unavailable{Node: "a:1", Why: "no answer in time"}
				}
				c.Done(p.Requests, p.Results, true)
				w.pass(min(ttl/3, 4000))
				w.eventually(func() bool { return w.count(&w.renewing) == 1 }, "a third of the shorter TTL has passed")
				require.True(t, w.lives("a"))
			}
		}
	}
}

func TestRLRenewDecidesWhenALeaseIsRenewedNext(t *testing.T) {
	w := newWorld(t)
	c, other := w.Conn(), w.Conn()
	w.acquire(&c, "a", true)
	w.renew(&other, "a", 3000) // a quarter of the TTL
	w.pass(1000)
	w.eventually(func() bool { return w.count(&w.renewing) == 2 }, "renewed before the shorter TTL has passed")
	w.pass(3000)
	require.True(t, w.lives("a"))

	late := make(chan struct{})
	w.set(func() { w.late = late })
	w.pass(1000)
	w.eventually(func() bool { return w.count(&w.renewing) == 3 }, "a renewal is under way")
	w.set(func() { w.late = nil })
	w.renew(&c, "a", 3000) // and answered before it
	close(late)
	w.eventually(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.renewals) == 4 }, "both are answered")
	w.pass(1000)
	w.eventually(func() bool { return w.count(&w.renewing) == 5 }, "renewed before the shorter TTL has passed")

	p := request(engine.OpDecide, "b")
	require.Empty(t, c.Claim(&p.Requests[0], true))
	fake{w}.Do(p)
	w.renew(&other, "b", 3000) // after the RL.ACQUIRE, and answered before it
	c.Done(p.Requests, p.Results, true)
	w.pass(1000)
	w.eventually(func() bool { return w.count(&w.renewing) == 7 }, "renewed before the shorter TTL has passed")
}

func TestRLRenewDecidesHowLongAReleaseIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	w.renew(&c, "a", 600_000)
	w.set(func() { w.down = true })
	c.Release()
	w.pass(ends(0, 12_000))
	w.eventually(func() bool { return w.count(&w.settling) == 2 }, "tried again")
	w.set(func() { w.down = false })
	w.pass(retryAfter)
	w.eventually(func() bool { return !w.lives("a") }, "released")
}

// Random commands of several connections, in virtual time, on an engine that takes up to 120 ms to answer. A seed determines the
// commands; the delays differ from run to run.
func TestATiedLeaseLivesUntilItIsReleased(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2)) // #nosec G404 -- a test's choices
			w := &world{t: t, live: make(map[leaseName]int64), slots: 100}
			w.Keeper = Open(Config{Engine: slow{fake{w}}})
			conns := []Conn{w.Conn(), w.Conn(), w.Conn()}
			owners := make(map[string]int) // of each lease
			for step := range 100 {
				i, id := random.IntN(len(conns)), strconv.Itoa(random.IntN(4))
				c, ask := &conns[i], func(op engine.Op, ttl int64) {
					p := request(op, id)
					p.Requests[0].Hold.TTL = ttl
					require.Empty(t, conns[i].Claim(&p.Requests[0], true))
					slow{fake{w}}.Do(p)
					conns[i].Done(p.Requests, p.Results, op == engine.OpDecide)
				}
				switch random.IntN(6) {
				case 0, 1:
					ask(engine.OpDecide, 1000+random.Int64N(30_000))
					owners[id] = i
				case 2, 3:
					ask(engine.OpRenew, 1000+random.Int64N(30_000))
				case 4:
					ask(engine.OpSettle, 0)
					delete(owners, id)
				case 5:
					c.Release()
					maps.DeleteFunc(owners, func(_ string, owner int) bool { return owner == i })
				}
				time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
				for id := range owners {
					require.True(t, w.lives(id), "seed %d, step %d: lease %s", seed, step, id)
				}
			}
			for i := range conns {
				conns[i].Release()
			}
			w.Close()
		})
	}
}

func TestRLReleaseUntiesALease(t *testing.T) {
	w := newWorld(t)
	c, other := w.Conn(), w.Conn()
	w.acquire(&c, "a", true)
	w.release(&other, "a") // any client may
	require.Zero(t, w.tied.Load())
	w.acquire(&other, "a", false)
	c.Release()
	require.True(t, w.lives("a"), "it belongs to no connection")

	w.acquire(&c, "b", true)
	w.set(func() { w.down = true })
	w.release(&c, "b")
	w.set(func() { w.down = false })
	require.EqualValues(t, 1, w.tied.Load(), "the release was not answered, so the lease is still tied")
	c.Release()
	require.False(t, w.lives("b"))
}

func TestTheNewestAcquireDecidesToWhichConnectionALeaseIsTied(t *testing.T) {
	w := newWorld(t)
	old, again := w.Conn(), w.Conn()
	w.acquire(&old, "a", true)
	w.acquire(&again, "a", true) // the client has connected again
	old.Release()                // and its old connection is noticed to be closed
	require.True(t, w.lives("a"))
	again.Release()
	require.False(t, w.lives("a"))

	w.acquire(&old, "b", true)
	w.acquire(&again, "b", false)
	old.Release()
	require.True(t, w.lives("b"), "tied to none")
	require.Zero(t, w.tied.Load())

	w.acquire(&old, "c", true)
	p := request(engine.OpDecide, "c")
	require.Empty(t, again.Claim(&p.Requests[0], true))
	old.Release() // while the engine is asked
	require.True(t, w.lives("c"))
	fake{w}.Do(p)
	again.Done(p.Requests, p.Results, true)
	require.True(t, w.lives("c"))
	require.EqualValues(t, 1, w.tied.Load())
	again.Release()

	first, second := request(engine.OpDecide, "d"), request(engine.OpDecide, "d")
	require.Empty(t, old.Claim(&first.Requests[0], true)) // at the same time
	require.Empty(t, again.Claim(&second.Requests[0], true))
	w.set(func() { w.slots = len(w.live) })
	fake{w}.Do(first)
	old.Done(first.Requests, first.Results, true)
	require.EqualValues(t, 1, w.tied.Load())
	fake{w}.Do(second)
	again.Done(second.Requests, second.Results, true)
	require.Zero(t, w.tied.Load(), "both were denied")
}

func TestAnAcquireWaitsForTheReleaseOfTheSameLease(t *testing.T) {
	for _, tied := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { waitForRelease(t, tied) })
	}
}

func waitForRelease(t *testing.T, tied bool) {
	w := newWorld(t)
	old, again := w.Conn(), w.Conn()
	w.acquire(&old, "a", true)
	gate := make(chan struct{})
	w.set(func() { w.gate = gate })
	released, acquired := make(chan struct{}), make(chan bool)
	go func() { old.Release(); close(released) }() // ends once the gate is open
	w.eventually(func() bool { return w.count(&w.settling) == 1 }, "the release is under way")
	go func() { acquired <- w.acquire(&again, "a", tied) }() // ends after the release
	require.True(t, w.acquire(&again, "b", tied), "other leases do not wait")
	synctest.Wait() // until all others wait
	close(gate)
	<-released
	require.True(t, <-acquired)
	require.True(t, w.lives("a"), "the release came first")
	again.Release()
	require.Equal(t, !tied, w.lives("a"))
}

func TestAcquiresThatFailLeaveNothingTied(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.set(func() { w.slots = 1 })
	require.True(t, w.acquire(&c, "a", true))
	require.False(t, w.acquire(&c, "b", true), "denied")
	require.EqualValues(t, 1, w.tied.Load())
	w.set(func() { w.down = true })
	require.False(t, w.acquire(&c, "c", true))
	require.False(t, w.acquire(&c, "a", true))
	require.EqualValues(t, 1, w.tied.Load(), "a is still held, for all that is known")
	w.set(func() { w.down = false })
	c.Release()
	require.False(t, w.lives("a"))

	p := request(engine.OpDecide, "d") // FAIL OPEN allowed it: it may be held
	require.Empty(t, c.Claim(&p.Requests[0], true))
	p.Grow()
	p.Results[0].Allowed, p.Results[0].Fail = true, engine.FailOpen
	c.Done(p.Requests, p.Results, true)
	require.EqualValues(t, 1, w.tied.Load())
	w.pass(4000)
	w.eventually(func() bool { return w.tied.Load() == 0 }, "it was not")
}

// A client has connected again, its old connection's release was not answered, and neither is its RL.ACQUIRE.
func TestARetriedReleaseGoesOnAfterAnAcquireThatFails(t *testing.T) {
	w := newWorld(t)
	old, again := w.Conn(), w.Conn()
	w.acquire(&old, "a", true)
	w.set(func() { w.down = true })
	old.Release()
	require.False(t, w.acquire(&again, "a", true))
	w.set(func() { w.down = false })
	require.True(t, w.lives("a"))
	w.pass(retryAfter)
	w.eventually(func() bool { return !w.lives("a") && w.tied.Load() == 0 }, "nobody has it")
}

// In a pipeline both are sent before either is answered.
func TestAnAcquireBehindAReleaseInAPipelineIsTied(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	w.acquire(&c, "a", true)
	release, acquire := request(engine.OpSettle, "a"), request(engine.OpDecide, "a")
	require.Empty(t, c.Claim(&release.Requests[0], false))
	require.Empty(t, c.Claim(&acquire.Requests[0], true))
	fake{w}.Do(release)
	fake{w}.Do(acquire)
	c.Done(release.Requests, release.Results, false)
	c.Done(acquire.Requests, acquire.Results, true)
	require.EqualValues(t, 1, w.tied.Load())
	c.Release()
	require.False(t, w.lives("a"))
}

func TestAConnectionThatClosesDuringAnAcquireReleasesIt(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	p := request(engine.OpDecide, "a")
	require.Empty(t, c.Claim(&p.Requests[0], true))
	fake{w}.Do(p)
	c.Release() // a panic: Done is not called
	require.False(t, w.lives("a"))
	require.Zero(t, w.tied.Load())
}

func TestMemoryAndLeasesOfAConnectionAreBounded(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	for i := range 8 {
		require.True(t, w.acquire(&c, strconv.Itoa(i), true))
	}
	_, msg := w.try(&c, "9", true)
	require.Equal(t, errNoMemory, msg)
	require.False(t, w.lives("9"), "the engine was not asked")
	require.True(t, w.acquire(&c, "3", true), "it is tied already")
	require.True(t, w.acquire(&c, "9", false))
	c.Release()

	k := Open(Config{Engine: fake{w}})
	defer k.Close()
	many := k.Conn()
	for i := range MaxConn {
		p := request(engine.OpDecide, fmt.Sprint("many", i))
		require.Empty(t, many.Claim(&p.Requests[0], true))
	}
	_, msg = w.try(&many, "more", true)
	require.Equal(t, reply.ErrConnSlots, msg)
	many.Release()
	require.Zero(t, k.tied.Load())

	var none *Keeper
	c = none.Conn()
	_, msg = w.try(&c, "a", true)
	require.Equal(t, errNoKeeper, msg)
	require.True(t, w.acquire(&c, "a", false))
	c.Release()
}

func TestQuestionsWithoutCostTieNothing(t *testing.T) {
	w := newWorld(t)
	c := w.Conn()
	p := request(engine.OpDecide, "a")
	p.Requests[0].Cost = 0
	require.Empty(t, c.Claim(&p.Requests[0], true))
	p.Grow()
	p.Results[0].Allowed = true
	c.Done(p.Requests, p.Results, true)
	require.Zero(t, w.tied.Load())
}

func TestAPanicOfTheEngineCostsARound(t *testing.T) {
	w := newWorld(t)
	c, gone := w.Conn(), w.Conn()
	w.acquire(&c, "a", true)
	w.acquire(&gone, "b", true)
	w.set(func() { w.panics = true })
	require.Panics(t, gone.Release)
	w.pass(4000)
	w.eventually(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.panicked == 3 }, "the release again, and the renewal")
	w.set(func() { w.panics = false })
	w.pass(1000)
	w.eventually(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.renewals) > 0 }, "renewed")
	w.eventually(func() bool { return !w.lives("b") }, "released")
	require.True(t, w.lives("a"))
}

// Connections take the same few leases from each other, while the engine fails at times. Run with -race.
func TestManyConnectionsAtOnceLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	var wait sync.WaitGroup
	for client := range 8 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client))) // #nosec G404 -- a test's choices
			for range 30 {
				c := w.Conn()
				for range random.IntN(20) {
					id := strconv.Itoa(random.IntN(4))
					switch random.IntN(6) {
					case 0:
						w.release(&c, id)
					case 1:
						w.set(func() { w.down = random.IntN(3) == 0 })
					case 2:
						w.pass(500)
					default:
						_, msg := w.try(&c, id, random.IntN(4) > 0)
						require.Contains(t, []string{"", errNoMemory}, msg)
					}
				}
				c.Release()
			}
		})
	}
	wait.Wait()
	w.set(func() { w.down = false })
	w.pass(retryAfter)
	w.eventually(func() bool { return w.tied.Load() == 0 }, "all is released")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Zero(t, w.bytes)
}
