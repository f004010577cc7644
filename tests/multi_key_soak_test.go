package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The keys of TestMultiKeyRequestsHoldEveryLimit. The tight ones deny, and the wide ones never do: what
// they have charged in the end is what was admitted.
const (
	tightKeys = 9
	wideKeys  = 4
	wideLimit = 1_000_000_000
)

// overlapping has the clients of that test, and the answers that they got.
type overlapping struct {
	fleet  *fleet
	left   atomic.Int64 // requests that have yet to be sent; below 0 if the kills take longer
	killed atomic.Bool  // whether all kills have happened
	stop   chan struct{}
	mu     sync.Mutex
	tight  [tightKeys]history // guarded by mu
	wide   [wideKeys]int64    // units admitted, guarded by mu
	maybe  [wideKeys]int64    // units of requests whose outcome the client does not know, guarded by mu
	denied int                // guarded by mu
}

// request returns the words of a request for two to four keys, one of which is wide, with costs.
func (o *overlapping) request(rng *rand.Rand) (command []any, keys []int, costs []int64) {
	keys = rng.Perm(tightKeys)[:1+rng.IntN(3)]
	keys = append(keys, tightKeys+rng.IntN(wideKeys))
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	line := "RL.SLIDE"
	for i, k := range keys {
		if i > 0 {
			line += " AND"
		}
		costs = append(costs, 1+rng.Int64N(3))
		if k < tightKeys {
			line += fmt.Sprintf(" tight:%d %d %dms COST %d", k, o.tight[k].limit, o.tight[k].window.Milliseconds(), costs[i])
		} else {
			line += fmt.Sprintf(" wide:%d %d 1h COST %d", k-tightKeys, wideLimit, costs[i])
		}
	}
	return words(line), keys, costs
}

// client sends one request after another until none is left and all kills have happened.
func (o *overlapping) client(t *testing.T, seed uint64) {
	r := newRoamer(seed, o.fleet.addrs)
	defer r.close()
	for o.left.Add(-1) >= 0 || !o.killed.Load() {
		select {
		case <-o.stop:
			return
		default:
		}
		command, keys, costs := o.request(r.rng)
		sent := time.Now()
		replies, err := r.exchange(command)
		for errors.Is(err, errNotSent) {
			sent = time.Now()
			replies, err = r.exchange(command)
		}
		read := time.Now()
		var answers []answer
		if err == nil {
			all, ok := replies[0].([]any)
			if !ok || len(all) != len(keys) {
				t.Errorf("%v: %v", command, replies[0])
				return
			}
			for i, one := range all {
				d, err := toDecision(one)
				if err != nil || len(answers) > 0 && d.allowed != answers[0].allowed {
					t.Errorf("%v: %v", command, replies[0])
					return
				}
				answers = append(answers, answer{sent, read, costs[i], d})
			}
		}
		o.mu.Lock()
		for i, k := range keys {
			switch {
			case err != nil || answers[i].unknown():
				if k >= tightKeys {
					o.maybe[k-tightKeys] += costs[i]
				}
			case k < tightKeys:
				o.tight[k].answers = append(o.tight[k].answers, answers[i])
			case answers[i].allowed == 1:
				o.wide[k-tightKeys] += costs[i]
			default:
				o.denied++
			}
		}
		o.mu.Unlock()
	}
}

// TestMultiKeyRequestsHoldEveryLimit sends requests for overlapping sets of keys on four nodes, through three proxies
// that are killed and started again. By the answers that clients got, no trailing window of any key admitted more than its
// limit; denied requests charged nothing; and units held by a killed proxy are free again after a second.
// SOAK_REQUESTS sets the number of requests, at most 200,000.
func TestMultiKeyRequestsHoldEveryLimit(t *testing.T) {
	t.Parallel()
	count := soakUpTo(200_000, 2000)
	nodes := startNodes(t, 4)
	observer := startProxy(t, backends(nodes...)...)
	c := dial(t, observer.addr)
	o := &overlapping{fleet: startFleet(t, backends(nodes...)), stop: make(chan struct{})}
	o.left.Store(count)
	for k := range o.tight {
		o.tight[k] = history{limit: int64(20 + 7*k), window: time.Duration(150+50*k) * time.Millisecond}
	}
	var clients sync.WaitGroup
	began := time.Now()
	for i := range 8 {
		clients.Add(1)
		go func() { // ends when no request is left and all kills have happened, or stop is closed
			defer clients.Done()
			o.client(t, uint64(i))
		}()
	}
	defer clients.Wait()
	defer close(o.stop)

	// No kill may leave anything held. Right after one kill most held units are those of the other proxies, so the last
	// rounds kill all proxies.
	kills := 0
	for ticker := time.NewTicker(500 * time.Millisecond); o.left.Load() > count/8; <-ticker.C {
		o.fleet.restart(t, kills%3)
		kills++
	}
	heldThen, rounds := int64(0), 0
	for ; heldThen == 0 && rounds < 20; rounds++ {
		for _, p := range o.fleet.proxies {
			p.Kill()
		}
		killed := time.Now()
		heldThen = o.held(t, c)
		eventually(t, "the units held by killed proxies to be free", func() bool { return o.held(t, c) == 0 })
		require.Less(t, time.Since(killed), 10*time.Second, "a hold lasts a second")
		for i := range o.fleet.proxies {
			o.fleet.restart(t, i)
		}
		was := o.left.Load()
		eventually(t, "requests", func() bool { return o.left.Load() < was-20 })
	}
	o.killed.Store(true)
	require.Positive(t, heldThen, "no proxy was killed while it held anything")
	clients.Wait()
	took := time.Since(began)
	eventually(t, "nothing to be held", func() bool { return o.held(t, c) == 0 })

	admitted, maybe := int64(0), int64(0)
	for k := range o.wide {
		used, _ := c.usage(t, fmt.Sprintf("wide:%d", k))
		require.GreaterOrEqual(t, used, o.wide[k], "wide:%d", k)
		require.LessOrEqual(t, used, o.wide[k]+o.maybe[k], "wide:%d: a denied request was charged", k)
		admitted, maybe = admitted+o.wide[k], maybe+o.maybe[k]
	}
	decided := 0
	for k := range o.tight {
		require.NoError(t, o.tight[k].checkLimit(), "tight:%d", k)
		require.NotEmpty(t, o.tight[k].denied(), "tight:%d", k)
		require.NotEmpty(t, o.tight[k].admitted(), "tight:%d", k)
		decided += len(o.tight[k].answers)
	}
	t.Logf("at least %d requests in %v, %d kills; %d units admitted of wide keys, %d maybe, %d requests denied; %d answers for tight keys",
		count, took.Round(time.Millisecond), kills+3*rounds, admitted, maybe, o.denied, decided)
	require.Positive(t, o.denied)
	for _, n := range nodes {
		requireExpiring(t, n)
	}
	o.fleet.stop(t)
	observer.stop(t)
}

// held returns the held units of all keys.
func (o *overlapping) held(t *testing.T, c *conn) (sum int64) {
	t.Helper()
	for k := range tightKeys {
		_, held := c.usage(t, fmt.Sprintf("tight:%d", k))
		sum += held
	}
	for k := range wideKeys {
		_, held := c.usage(t, fmt.Sprintf("wide:%d", k))
		sum += held
	}
	return sum
}
