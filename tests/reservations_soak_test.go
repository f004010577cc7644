package tests

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reservations has the clients of TestReservationsHoldTheirLimits, and the units that they know to be charged.
type reservations struct {
	fleet    *fleet
	left     atomic.Int64 // reservations that have yet to be asked for
	faults   atomic.Int64 // that have happened
	charged  [reservedKeys]atomic.Int64
	maybe    atomic.Int64 // units of the last key that may be charged beside those: an answer came after its id was forgotten
	refused  atomic.Int64
	repeated atomic.Int64 // requests that were sent again
}

const (
	reservedKeys  = 4
	reservedLimit = 60 // of the keys that deny
	leastFaults   = 9
)

// limitOf returns the limit and the window of a key. The last key never denies, and its window lasts longer than the test.
func limitOf(key int) (limit int64, window string) {
	if key == reservedKeys-1 {
		return 1_000_000_000, "1h"
	}
	return reservedLimit, "700ms"
}

// until sends a command until it gets an answer that is not by a FAIL policy.
func (s *reservations) until(r *roamer, command []any) ([]int64, error) {
	for try := 0; ; try++ {
		if try > 0 {
			s.repeated.Add(1)
		}
		if try > 10_000 {
			return nil, fmt.Errorf("%v is never answered", command)
		}
		replies, err := r.exchange(command)
		if err != nil {
			continue
		}
		all, ok := replies[0].([]any)
		if !ok {
			if text, _ := replies[0].(errReply); len(text) > 11 && text[:11] == "UNAVAILABLE" {
				continue
			}
			return nil, fmt.Errorf("%v: %v", command, replies[0])
		}
		numbers := make([]int64, len(all))
		for i := range all {
			numbers[i], _ = all[i].(int64)
		}
		if len(numbers) == 5 && numbers[2] < 0 {
			continue
		}
		return numbers, nil
	}
}

// client makes one reservation after another. It settles each with the held units, fewer or none, or does not settle it.
func (s *reservations) client(number int) error {
	r := newRoamer(uint64(number), s.fleet.addrs)
	defer r.close()
	for n := 0; s.left.Add(-1) >= 0 || s.faults.Load() < leastFaults; n++ {
		key := r.rng.IntN(reservedKeys)
		limit, window := limitOf(key)
		held, id := 1+r.rng.Int64N(9), fmt.Sprintf("%d:%d", number, n)
		lapse := "CHARGE"
		if r.rng.IntN(2) == 0 {
			lapse = "RELEASE"
		}
		ttl := time.Duration(500+r.rng.IntN(200)) * time.Millisecond
		if key == reservedKeys-1 {
			ttl += 2 * time.Second
		}
		asked := time.Now()
		late := func() {
			if time.Since(asked) > ttl-100*time.Millisecond && key == reservedKeys-1 {
				s.maybe.Add(held)
			}
			asked = time.Now()
		}
		got, err := s.until(r, words(fmt.Sprintf("RL.RESERVE held:%d %d %s COST %d ID %s TTL %dms LAPSE %s", key, limit, window, held, id, ttl.Milliseconds(), lapse)))
		if err != nil {
			return err
		}
		late()
		if got[0] == 0 {
			s.refused.Add(1)
			continue
		}
		cost := r.rng.Int64N(held + 1)
		if r.rng.IntN(5) == 0 { // it crashes
			if lapse == "CHARGE" {
				s.charged[key].Add(held)
			}
			continue
		}
		settled, err := s.until(r, words(fmt.Sprintf("RL.SETTLE held:%d %s %d", key, id, cost)))
		late()
		switch {
		case err != nil:
			return err
		case settled[0] == 1 && (settled[1] != cost || settled[2] != held-cost):
			return fmt.Errorf("settled %v with %d of %d", settled, cost, held)
		case settled[0] == 1:
			s.charged[key].Add(cost)
		case lapse == "CHARGE": // it had lapsed by then
			s.charged[key].Add(held)
		}
	}
	return nil
}

// TestReservationsHoldTheirLimits lets many clients reserve and settle through three proxies that are killed and started
// again, on nodes that lose their functions and connections. A client that gets no answer sends its request again. The units
// charged and held are never more than the limit, and in the end exactly the settled and the lapsed units are charged.
// SOAK_REQUESTS sets the number of reservations, at most 100,000.
func TestReservationsHoldTheirLimits(t *testing.T) {
	t.Parallel()
	count := soakUpTo(100_000, 4000)
	nodes := startNodes(t, 2)
	observer := startProxy(t, backends(nodes...)...)
	s := &reservations{fleet: startFleet(t, backends(nodes...))}
	s.left.Store(count)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var looks, most atomic.Int64
	var watchers, clients sync.WaitGroup
	watchers.Add(1)
	go func() { // ends with ctx
		defer watchers.Done()
		c, err := connect(observer.addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		for k := 0; ctx.Err() == nil; k++ {
			replies, err := c.Exchange([]any{"RL.INSPECT", fmt.Sprintf("held:%d", k%(reservedKeys-1))})
			if err != nil {
				t.Error(err)
				return
			}
			all, ok := replies[0].([]any)
			if !ok {
				continue // a connection of the observer's was killed
			}
			for _, state := range all {
				fields, sum := state.([]any), int64(0)
				for i := 0; i < len(fields); i += 2 {
					if fields[i] == "used" || fields[i] == "held" {
						sum += fields[i+1].(int64)
					}
				}
				if sum > reservedLimit {
					t.Errorf("%d of %d are charged and held: %v", sum, reservedLimit, fields)
					return
				}
				most.Store(max(most.Load(), sum))
				looks.Add(1)
			}
		}
	}()
	began := time.Now()
	for i := range 10 {
		clients.Add(1)
		go func() { // ends when none is left
			defer clients.Done()
			if err := s.client(i); err != nil {
				t.Error(err)
			}
		}()
	}
	for ticker := time.NewTicker(300 * time.Millisecond); s.left.Load() > 0 || s.faults.Load() < leastFaults; <-ticker.C {
		turn := int(s.faults.Load())
		node := nodes[turn/3%len(nodes)]
		switch turn % 3 {
		case 0:
			s.fleet.restart(t, turn/3%3)
		case 1:
			require.NoError(t, node.FunctionFlush(context.Background()).Err())
		default:
			require.NoError(t, node.ClientKillByFilter(context.Background(), "TYPE", "normal").Err())
		}
		s.faults.Add(1)
	}
	clients.Wait()
	took := time.Since(began)
	cancel()
	watchers.Wait()

	c := dial(t, observer.addr)
	last := reservedKeys - 1
	eventually(t, "everything to be settled or to lapse", func() bool {
		_, held := c.usage(t, fmt.Sprintf("held:%d", last))
		return held == 0
	})
	used, _ := c.usage(t, fmt.Sprintf("held:%d", last))
	require.GreaterOrEqual(t, used, s.charged[last].Load()-s.maybe.Load(), "what was settled, and what lapsed, is charged")
	require.LessOrEqual(t, used, s.charged[last].Load()+s.maybe.Load(), "what was settled, and what lapsed, is charged once")
	t.Logf("%d reservations and more in %v, %d refused, %d requests sent again, %d faults; %d units charged and %d in doubt; %d looks at what is charged and held, at most %d of %d",
		count, took.Round(time.Millisecond), s.refused.Load(), s.repeated.Load(), s.faults.Load(), used, s.maybe.Load(), looks.Load(), most.Load(), reservedLimit)
	require.Less(t, s.maybe.Load(), used/20, "too many answers came too late to say anything")
	require.Positive(t, s.refused.Load())
	require.Positive(t, s.repeated.Load())
	require.Greater(t, most.Load(), int64(reservedLimit*9/10), "the keys were full")
	for _, n := range nodes {
		requireExpiring(t, n)
	}
	s.fleet.stop(t)
	observer.stop(t)
}
