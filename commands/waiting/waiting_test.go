package waiting

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/stretchr/testify/require"
)

// caller is a client with one request, and what has become of it.
type caller struct {
	cost, block int64 // block 0: it does not wait
	comes       int64 // ms
	goes        int64 // the ms at which it goes away; -1: never
	told        bool  // the room is told when it goes, and not only finds out

	mu     sync.Mutex
	ended  int64 // the ms of its answer; -1: none
	answer engine.Result
}

// world is a room over an embedded engine, at the clock of a synctest bubble.
type world struct {
	*memory.Engine
	*Room
	began time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{Engine: memory.New(memory.Config{}), began: time.Now()}
	w.Room = Open(w.Engine)
	t.Cleanup(func() { require.NoError(t, w.Engine.Close()) })
	return w
}

func (w *world) now() int64 { return time.Since(w.began).Milliseconds() }

// sleepUntil lets time pass, and what is due happen.
func (w *world) sleepUntil(ms int64) {
	synctest.Wait()
	time.Sleep(time.Duration(ms-w.now()) * time.Millisecond)
	synctest.Wait()
}

// call has a client ask, as a session does. It returns nil if the request is answered at once.
func (w *world) call(c *caller, r engine.Request) *Waiter {
	r.Block = c.block
	x := &Waiter{Request: r, Came: time.Now().Add(-time.Millisecond / 2)} // so that no wait ends when there is room
	x.Gone = func() bool { return c.goes >= 0 && w.now() >= c.goes }
	x.Wake = func() {
		answer := w.Leave(x)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended, c.answer = w.now(), answer
	}
	if c.block > 0 && w.Busy(&r) {
		if !w.Join(x, nil) {
			panic("too many")
		}
		return x
	}
	res := conformance.Ask(w.Engine, r)
	if res.Allowed || c.block == 0 || InVain(&r, &res, x.Came) {
		c.ended, c.answer = w.now(), res
		return nil
	}
	if !w.Join(x, &res) {
		panic("too many")
	}
	return x
}

// reference is a first-come-first-served line in front of a sliding window, in ms.
type reference struct {
	limit, window int64
	charged       []charge
	line          []*caller
	due           int64
	ended         map[*caller]int64
	admitted      map[*caller]bool
}

type charge struct{ at, cost int64 }

func (m *reference) used(at int64) (sum int64) {
	for _, c := range m.charged {
		if at <= c.at+m.window {
			sum += c.cost
		}
	}
	return sum
}

func (m *reference) end(c *caller, at int64, admitted bool) {
	m.ended[c], m.admitted[c] = at, admitted
	if admitted && c.cost > 0 {
		m.charged = append(m.charged, charge{at, c.cost})
	}
}

// room returns the first ms at which there is room.
func (m *reference) room(at, cost int64) int64 {
	for m.used(at)+cost > m.limit {
		at++
	}
	return at
}

func (m *reference) comes(c *caller, at int64) {
	if len(m.line) > 0 && c.block > 0 {
		if m.due >= at+c.block {
			m.end(c, at, false)
			return
		}
		m.line = append(m.line, c)
		return
	}
	due := m.room(at, c.cost)
	if due == at || due >= at+c.block {
		m.end(c, at, due == at)
		return
	}
	m.line, m.due = []*caller{c}, due
}

// serve asks for the first, and for those behind it while they are admitted.
func (m *reference) serve(at int64) {
	for len(m.line) > 0 {
		first := m.line[0]
		if first.goes >= 0 && first.goes <= at {
			m.line = m.line[1:]
			continue
		}
		if m.due = m.room(at, first.cost); m.due == at {
			m.line = m.line[1:]
			m.end(first, at, true)
			continue
		}
		late := func(c *caller) bool { return c.comes+c.block <= m.due }
		again := late(first)
		m.line = slices.DeleteFunc(m.line, func(c *caller) bool {
			if late(c) {
				m.end(c, at, false)
			}
			return late(c)
		})
		if !again || len(m.line) == 0 || m.line[0].cost == first.cost {
			return
		}
	}
}

func (m *reference) leaves(c *caller, at int64) {
	if i := slices.Index(m.line, c); i >= 0 {
		m.line = slices.Delete(m.line, i, i+1)
		m.end(c, at, false)
		if i == 0 {
			m.serve(at)
		}
	}
}

// TestRandomLinesAreServedInOrder compares what becomes of callers with a reference that is too simple to be wrong: who
// is admitted, when, and who is denied, when, and what is charged.
func TestRandomLinesAreServedInOrder(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compare(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func compare(t *testing.T, rnd *rand.Rand) {
	w := newWorld(t)
	defer w.Room.Close()
	most, window := 1+rnd.Int64N(6), 5+rnd.Int64N(60)
	m := &reference{limit: most, window: window, ended: map[*caller]int64{}, admitted: map[*caller]bool{}}
	var all []*caller
	waiters := map[*caller]*Waiter{}
	same := rnd.IntN(2) == 0 // costs are equal, so that several are asked together
	for at := int64(1); at < 600; at++ {
		w.sleepUntil(at)
		if len(m.line) > 0 && m.due <= at {
			m.serve(at)
		}
		for _, c := range all {
			if c.goes == at && c.told && waiters[c] != nil {
				m.leaves(c, at)
				w.Leave(waiters[c])
				synctest.Wait()
			}
		}
		for range rnd.IntN(3) * rnd.IntN(2) {
			c := &caller{cost: 1 + rnd.Int64N(most), comes: at, goes: -1, ended: -1, told: rnd.IntN(2) == 0}
			if same {
				c.cost = 1
			}
			if rnd.IntN(5) > 0 {
				c.block = 1 + rnd.Int64N(4*window)
			}
			if rnd.IntN(5) == 0 && c.block > 0 {
				c.goes = at + 1 + rnd.Int64N(window)
			}
			all = append(all, c)
			m.comes(c, at)
			waiters[c] = w.call(c, conformance.Slide("k", most, window, c.cost))
			synctest.Wait()
		}
		require.Equal(t, m.used(at), used(w), "at %d", at)
	}
	w.sleepUntil(2000)
	for at := int64(600); at < 2000; at++ {
		if len(m.line) > 0 && m.due <= at {
			m.serve(at)
		}
	}
	for i, c := range all {
		if c.goes < 0 || m.admitted[c] {
			require.Equal(t, m.admitted[c], c.answer.Allowed, "caller %d of %+v", i, m)
			require.Equal(t, m.ended[c], c.ended, "caller %d, cost %d, came %d, block %d", i, c.cost, c.comes, c.block)
		} else {
			require.False(t, c.answer.Allowed, "caller %d went away", i)
		}
	}
	require.Zero(t, w.Len())
}

// used returns the units that count.
func used(w *world) (sum int64) {
	for _, s := range conformance.Ask(w.Engine, conformance.Inspect("k")).States {
		sum += s.Used
	}
	return sum
}

func TestAReleaseLetsTheFirstInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Room.Close()
		acquire := func(id string, block int64) *caller {
			c := &caller{block: block, goes: -1, ended: -1}
			r := conformance.Request(limit.Concurrency, "k", 1, 0)
			r.Hold = &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: 60_000, Release: true}
			w.call(c, r)
			return c
		}
		release := func(id string) {
			r := conformance.Request(limit.Concurrency, "k", 1, 0)
			r.Op, r.Cost, r.Hold = engine.OpSettle, 0, &engine.Hold{ID: engine.DigestOf([]byte(id))}
			require.True(t, conformance.Ask(w.Engine, r).Settled.Settled)
			synctest.Wait()
		}
		first := acquire("a", 0)
		require.True(t, first.answer.Allowed)
		b := acquire("b", 10_000)
		gone := acquire("gone", 10_000)
		c := acquire("c", 10_000)
		d := acquire("d", 300)
		w.sleepUntil(200)
		require.Equal(t, 4, w.Len(), "the lease of a lasts for a minute, but may be released")
		release("a")
		require.Equal(t, int64(200), b.ended)
		require.True(t, b.answer.Allowed)
		w.sleepUntil(301)
		require.Equal(t, int64(299), d.ended)
		require.False(t, d.answer.Allowed)
		require.Equal(t, int64(1), d.answer.Limit)
		require.Positive(t, d.answer.RetryAfter)
		gone.goes = 400
		w.sleepUntil(500)
		release("b") // gone is admitted, and its lease is given back
		require.Equal(t, int64(500), c.ended)
		require.True(t, c.answer.Allowed)
		require.False(t, gone.answer.Allowed)
	})
}

// As many wait as may, for one key and in all.
func TestSoManyMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Room.Close()
		denied := engine.Result{Decision: limit.Decision{Limit: 1, RetryAfter: 3_600_000}} // nobody is asked before
		var all []*Waiter
		joins := func(key string) bool {
			r := conformance.Slide(key, 1, 3_600_000, 1)
			r.Block = 7_200_000
			x := &Waiter{Request: r, Came: time.Now(), Gone: func() bool { return false }, Wake: func() {}}
			if !w.Join(x, &denied) {
				return false
			}
			all = append(all, x)
			return true
		}
		for i := range maxAll / maxLine {
			require.True(t, conformance.Ask(w.Engine, conformance.Slide(fmt.Sprint(i), 1, 3_600_000, 1)).Allowed)
		}
		for i := range maxAll {
			require.True(t, joins(fmt.Sprint(i/maxLine)))
		}
		require.False(t, joins("another"), "all places are taken")
		for _, x := range all[maxAll-maxLine:] {
			require.False(t, w.Leave(x).Allowed)
		}
		require.True(t, joins("another"))
		require.False(t, joins("0"), "all places of the key are taken")
		require.Equal(t, maxAll-maxLine+1, w.Len())
		for _, x := range append(all[:maxAll-maxLine:maxAll-maxLine], all[maxAll]) {
			w.Leave(x)
		}
		require.Zero(t, w.Len())
	})
}
