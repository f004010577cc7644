package tests

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// tenant is one key and the requests that are made for it.
type tenant struct {
	key     string
	command string
	pairs   []pair
	refill  int64 // of a bucket, whose capacity is the pair's limit; 0: it is none
	lower   int64 // the limit that half of the calls bring instead of the first pair's; 0 for none
	cost    int64 // the cost of each call, unless maxCost is set
	maxCost int64 // if set, costs are drawn from 1 to maxCost, and IDs choose the shard
	options []any
	policy  string // that says the limits; empty: each call brings them
}

type pair struct {
	limit  int64
	window time.Duration
}

// rate returns how many calls per second the tenant's limits admit.
func (c *tenant) rate() float64 {
	least := math.Inf(1)
	for _, p := range c.pairs {
		least = min(least, float64(cmp.Or(c.refill, p.limit))/p.window.Seconds())
	}
	if c.maxCost > 0 {
		return least / (float64(c.maxCost+1) / 2)
	}
	return least / float64(c.cost)
}

// call returns the next command and its cost.
func (c *tenant) call(rng *rand.Rand) ([]any, int64) {
	if c.policy != "" {
		return []any{"RL.CHECK", c.policy, c.key, "COST", c.cost}, c.cost
	}
	words := []any{c.command, c.key}
	for _, p := range c.pairs {
		limit := p.limit
		if c.lower > 0 && rng.IntN(2) == 0 {
			limit = c.lower
		}
		words = append(words, limit)
		if c.refill > 0 {
			words = append(words, c.refill)
		}
		words = append(words, fmt.Sprintf("%dms", p.window.Milliseconds()))
	}
	cost := c.cost
	if c.maxCost > 0 {
		cost = 1 + rng.Int64N(c.maxCost)
		words = append(words, "ID", rng.IntN(100))
	}
	return append(append(words, "COST", cost), c.options...), cost
}

// phase is how long a demand keeps one of its factors.
const phase = 3 * time.Second

// demand is the load of a soak: clients send requests to a fleet at a multiple of the rate that
// the limits admit. The multiple changes from phase to phase.
type demand struct {
	fleet   *fleet
	clients int // number of clients of each proxy
	tenants []tenant
	phases  []float64 // the factors, repeated from the first after the last
	away    bool      // whether nodes go away, so that policies may answer
	seed    uint64    // of what clients draw

	began   time.Time
	sent    atomic.Int64
	mu      sync.Mutex
	answers [][]answer // by tenant; guarded by mu
	failure error      // the first one; guarded by mu
}

// maxDepth is the largest number of commands in a pipeline.
const maxDepth = 64

// start starts the clients, which end with the context. The channel is closed when all of them
// have ended. After that, start may be called again.
func (d *demand) start(ctx context.Context) <-chan struct{} {
	if d.answers == nil {
		d.began, d.answers = time.Now(), make([][]answer, len(d.tenants))
	}
	var wg sync.WaitGroup
	for i := range d.fleet.proxies {
		for j := range d.clients {
			wg.Add(1)
			go func() { // ends with the context
				defer wg.Done()
				c := &caller{demand: d, place: i, rng: rand.New(rand.NewPCG(d.seed+uint64(i), uint64(j)))}
				err := c.run(ctx)
				d.mu.Lock()
				defer d.mu.Unlock()
				for k := range d.tenants {
					d.answers[k] = append(d.answers[k], c.answers[k]...)
				}
				if d.failure == nil {
					d.failure = err
				}
			}()
		}
	}
	done := make(chan struct{})
	go func() { // ends when the clients have
		wg.Wait()
		close(done)
	}()
	return done
}

// phaseAt returns the number of phases that have passed at time t.
func (d *demand) phaseAt(t time.Time) int { return int(t.Sub(d.began) / phase) }

func (d *demand) factor(phase int) float64 { return d.phases[phase%len(d.phases)] }

// caller is one client. When its proxy is killed, it continues with the one that replaces
// it.
type caller struct {
	demand  *demand
	place   int // index of its proxy in the fleet
	rng     *rand.Rand
	answers [][]answer // by tenant
}

func (c *caller) run(ctx context.Context) error {
	d := c.demand
	c.answers = make([][]answer, len(d.tenants))
	due := make([]float64, len(d.tenants)) // number of requests that are due, by tenant
	for i := range due {
		due[i] = c.rng.Float64()
	}
	last := time.Now()
	for ctx.Err() == nil {
		p := d.fleet.proxy(c.place)
		link, err := d.fleet.connect(c.place, p)
		for ; err == nil && ctx.Err() == nil; time.Sleep(time.Millisecond) { // this paces the demand
			now := time.Now()
			share := now.Sub(last).Seconds() * d.factor(d.phaseAt(now)) / float64(d.clients*len(d.fleet.proxies))
			last = now
			for i := range due {
				rate := d.tenants[i].rate()
				due[i] = min(due[i]+rate*share, max(rate/10, 2)) // a client that was delayed does not send all of its backlog at once
			}
			var broken bool
			if broken, err = c.ask(link, c.due(due)); err != nil && !broken {
				return err
			}
		}
		if link != nil {
			_ = link.Close() // no request is pending
		}
		if err == nil {
			continue
		}
		if _, alive := d.fleet.successor(c.place, p); alive != nil {
			return err // the proxy was not killed
		}
	}
	return nil
}

// due removes the requests that are due and returns them as indices of tenants, shuffled.
func (c *caller) due(due []float64) []int {
	var asked []int
	for i := range due {
		for ; due[i] >= 1 && len(asked) < maxDepth; due[i]-- {
			asked = append(asked, i)
		}
	}
	c.rng.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	return asked
}

// ask sends a pipeline and records the answers. If the connection breaks, those that did
// not arrive are recorded as unknown.
func (c *caller) ask(link *conn, asked []int) (broken bool, err error) {
	if len(asked) == 0 {
		return false, nil
	}
	pipeline, costs := make([][]any, len(asked)), make([]int64, len(asked))
	for i, tenant := range asked {
		pipeline[i], costs[i] = c.demand.tenants[tenant].call(c.rng)
	}
	c.demand.sent.Add(int64(len(asked)))
	sent := time.Now()
	replies, err := link.Exchange(pipeline...)
	read := time.Now()
	for i, tenant := range asked {
		a := answer{sent, read, costs[i], decision{remaining: -1}}
		if i < len(replies) {
			var bad error
			if a.decision, bad = toDecision(replies[i]); bad != nil {
				if c.demand.tenants[tenant].policy != "" && c.demand.away {
					continue // its proxy, which has just started, does not know the policy yet
				}
				return false, bad
			}
			if a.unknown() && !c.demand.away {
				return false, fmt.Errorf("answered by FAIL policy: %v", pipeline[i])
			}
		}
		c.answers[tenant] = append(c.answers[tenant], a)
	}
	return err != nil, err
}
