package tests

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// advanceTenants are hot keys of every algorithm, with what is promised for each window.
var advanceTenants = []struct {
	tenant
	check func(h *history) error
	reset bool // whether the key is reset now and then
}{
	{tenant{key: "slide", command: "RL.SLIDE", pairs: []pair{{3000, time.Second}}, cost: 1}, (*history).checkLimit, false},
	{tenant{key: "reset", command: "RL.SLIDE", pairs: []pair{{2000, time.Second}}, cost: 1}, (*history).checkLimit, true},
	{tenant{key: "long", command: "RL.SLIDE", pairs: []pair{{12_000, 3 * time.Second}}, cost: 2}, (*history).checkLimit, false},
	{tenant{key: "two", command: "RL.SLIDE", pairs: []pair{{2000, time.Second}, {5000, 3 * time.Second}}, cost: 1}, (*history).checkLimit, false},
	{tenant{key: "strict", command: "RL.COUNTER", pairs: []pair{{2000, time.Second}}, cost: 1, options: []any{"BUCKETS", 10, "STRICT"}},
		(*history).checkLimit, true},
	{tenant{key: "weighed", command: "RL.COUNTER", pairs: []pair{{2000, time.Second}}, cost: 1},
		func(h *history) error { return h.checkWeighed(1) }, false},
	{tenant{key: "fixed", command: "RL.FIXED", pairs: []pair{{2000, time.Second}}, cost: 1}, (*history).checkFixed, false},
	{tenant{key: "bucket", command: "RL.BUCKET", pairs: []pair{{1000, time.Second}}, refill: 2000, cost: 1},
		func(h *history) error { return h.checkBucket(2000) }, true},
	{tenant{key: "lower", command: "RL.SLIDE", pairs: []pair{{2400, time.Second}}, lower: 2000, cost: 1}, (*history).checkOwnLimits, false},
	{tenant{key: "named", policy: "plan", pairs: []pair{{2000, time.Second}}, cost: 1}, (*history).checkOwnLimits, false},
}

// badDays has everything that TestAdvancesHoldTheirLimitsUnderFaults disturbs.
type badDays struct {
	t      *testing.T
	demand *demand
	fleet  *fleet
	rng    *rand.Rand
	hops   []*faultnet.Proxy // between the proxies and both nodes
	nodes  [2]*node          // behind the second hop: the master and its replica
	third  *node             // that is in the list of some proxies
	longer bool              // whether the next proxy that starts has that list
	counts map[string]int    // of faults
	resets []interval
	drawn  map[*proxy]int64 // requests that a proxy has decided in memory, when it was asked last
}

func startBadDays(t *testing.T) *badDays {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed) // of what is drawn; when things happen depends on the machine
	b := &badDays{t: t, rng: rand.New(rand.NewPCG(seed, 0)), nodes: [2]*node(startNodes(t, 2)), third: startNode(t), counts: make(map[string]int), drawn: make(map[*proxy]int64)}
	b.nodes[1].Do("REPLICAOF", "127.0.0.1", b.nodes[0].Port)
	args := []string{"--backend-timeout", "3000", "--advance", "yes"}
	for _, to := range []*node{startNode(t), b.nodes[0]} {
		hop := faultnet.Start(t, to.Addr)
		b.hops = append(b.hops, hop)
		args = append(args, "--backend", "redis://"+hop.Addr)
	}
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	b.fleet = &fleet{args: args, tls: a.trust(), own: func(i int) (own []string) {
		if b.longer {
			own = append(own, "--backend", b.third.URL())
		}
		if i == 2 {
			own = append(own, "--tls-port", strconv.Itoa(redistest.FreePort(t)), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
		}
		return own
	}}
	if soak > 0 {
		b.fleet.binary = buildWithClock(t)
	}
	b.demand = &demand{fleet: b.fleet, clients: 4, phases: []float64{0.5, 1.4, 0.6, 0.8, 0.5, 0.7, 0.6, 0.5}, away: true, seed: seed}
	b.placeTenants()
	for i := range 3 {
		b.fleet.proxies = append(b.fleet.proxies, b.fleet.start(t, i))
	}
	b.meddle() // sets the policy for them
	return b
}

// placeTenants chooses keys that are not on the third node by the longer list, because a key that moves begins at 0.
func (b *badDays) placeTenants() {
	b.longer = true
	p := b.fleet.start(b.t, 0)
	b.longer = false
	c := dial(b.t, p.addr)
	require.IsType(b.t, []any{}, c.do(b.t, words("RL.POLICY SET plan SLIDE 2000 1s")...))
	for _, one := range advanceTenants {
		for i := 0; ; i++ {
			own := one.tenant
			own.key = fmt.Sprint(one.key, i)
			command, _ := own.call(b.rng)
			_, err := toDecision(c.do(b.t, command...))
			require.NoError(b.t, err, command)
			if !strings.Contains(strings.Join(b.third.keys(b.t), " "), own.key) {
				b.demand.tenants = append(b.demand.tenants, own)
				break
			}
		}
	}
	p.stop(b.t)
}

// ask sends a command to a proxy that runs without TLS until it is done.
func (b *badDays) ask(line string) interval {
	began := time.Now()
	eventually(b.t, line, func() bool {
		p := b.fleet.proxy(b.rng.IntN(2))
		c, err := connect(p.addr)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		replies, err := c.Exchange(words(line))
		if err != nil {
			return false
		}
		_, failed := replies[0].(errReply)
		return !failed
	})
	return interval{began, time.Now().Add(slack)}
}

// meddle resets keys and changes the policy.
func (b *badDays) meddle() {
	for i, c := range advanceTenants {
		if c.reset && b.rng.IntN(2) == 0 {
			b.resets = append(b.resets, b.ask("RL.RESET "+b.demand.tenants[i].key))
		}
	}
	b.ask(fmt.Sprintf("RL.POLICY SET plan SLIDE %d 1s", 1400+200*b.rng.IntN(4)))
	b.counts["policies changed"]++
}

// lose has both hops lose something for a while.
func (b *badDays) lose(f faultnet.Faults) {
	for _, hop := range b.hops {
		hop.Set(f)
	}
	b.meddle()
	time.Sleep(400 * time.Millisecond) // how long the fault lasts
	for _, hop := range b.hops {
		hop.Set(faultnet.Faults{})
	}
}

// failOver has the replica take over when it is in step, and moves the node's address to it.
func (b *badDays) failOver() {
	was, next := b.nodes[0], b.nodes[1]
	eventually(b.t, "a replica in sync", func() bool {
		reply, err := was.Ask("FAILOVER")
		return err == nil && reply == "OK"
	})
	eventually(b.t, "the replica to take over", func() bool { return strings.Contains(next.Do("INFO", "replication"), "role:master") })
	b.hops[1].Move(next.Addr)
	b.nodes = [2]*node{next, was}
}

// faults are the things that happen, by name. i is the proxy to which they happen.
func (b *badDays) faults() map[string]func(i int) {
	all := map[string]func(i int){
		"proxies killed": func(i int) { b.fleet.restart(b.t, i) },
		"lists changed": func(i int) {
			b.longer = !b.longer
			b.fleet.restart(b.t, i)
		},
		"proxies stopped": func(i int) {
			p := b.fleet.proxy(i)
			p.Signal(b.t, syscall.SIGSTOP)
			time.Sleep(soakOr(1300*time.Millisecond, 600*time.Millisecond)) // more than an advance lasts, and than most windows
			p.Signal(b.t, syscall.SIGCONT)
		},
		"messages lost": func(int) {
			b.lose(faultnet.Faults{Drop: func(data []byte) bool { return bytes.Contains(data, []byte("\r\nmessage\r\n")) }})
		},
		"replies lost": func(int) {
			b.lose(faultnet.Faults{Lose: func() bool { return rand.IntN(50) == 0 }})
		},
		"nodes failed over": func(int) { b.failOver() },
	}
	if b.fleet.binary != "" {
		all["clocks set"] = func(i int) {
			b.fleet.proxy(i).Signal(b.t, []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}[b.rng.IntN(2)])
		}
	}
	return all
}

// TestAdvancesHoldTheirLimitsUnderFaults sends requests below and above the limits of hot keys through three proxies, one of
// them with TLS, to two nodes. Meanwhile proxies are killed, or stopped for longer than an advance lasts; messages of the
// nodes and their replies are lost; a replica takes over; proxies have different lists of nodes; limits change by call and by
// policy; and keys are reset. With SOAK_REQUESTS, which sets the least number of requests, wall clocks of proxies are set,
// too. No window admits more than the limit.
func TestAdvancesHoldTheirLimitsUnderFaults(t *testing.T) {
	t.Parallel()
	b := startBadDays(t)
	ctx, end := context.WithCancel(t.Context())
	done := b.demand.start(ctx)
	faults := b.faults()
	for round := 0; round == 0 || b.demand.sent.Load() < soak || b.countDraws() == 0; round++ {
		for name, happen := range faults { // in a random order
			select {
			case <-done:
				require.NoError(t, b.demand.failure)
				t.Fatal("the clients ended")
			case <-time.After(500 * time.Millisecond):
			}
			b.countDraws()
			happen(b.rng.IntN(3))
			b.meddle()
			b.counts[name]++
		}
	}
	decisions := b.countDraws()
	end()
	<-done
	require.NoError(t, b.demand.failure)
	t.Logf("%d requests, %d resets, at least %d decided in memory, %v", b.demand.sent.Load(), len(b.resets), decisions, b.counts)
	b.judge()
	b.fleet.stop(t)
}

// countDraws returns how many requests were decided in memory, apart from the last ones of proxies that were killed.
func (b *badDays) countDraws() (all int64) {
	for i := range b.fleet.proxies {
		b.drawn[b.fleet.proxy(i)] = advanceStats(b.t, b.fleet, i)["advance_decisions"]
	}
	for _, n := range b.drawn {
		all += n
	}
	return all
}

// judge checks all answers.
func (b *badDays) judge() {
	for i, c := range advanceTenants {
		for _, h := range b.demand.histories(i, 0) {
			b.t.Logf("%-8s %7d admitted, %7d denied, %5d unknown", c.key, len(h.admitted()), len(h.denied()), len(h.lost()))
			if reachesLimits {
				require.NotEmpty(b.t, h.denied(), c.key)
			}
			parts := []history{h}
			if c.reset {
				parts = h.between(b.resets)
			}
			for _, part := range parts {
				require.NoError(b.t, c.check(&part), c.key)
			}
		}
	}
}
