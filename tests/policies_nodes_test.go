package tests

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// storedPolicies is the stored key of the policies that are set by command.
const storedPolicies = "rl:{%policies}"

// setPolicy sets a policy and requires that the command succeeds.
func (c *conn) setPolicy(t *testing.T, line string) {
	t.Helper()
	reply := c.do(t, words("RL.POLICY SET "+line)...)
	require.IsType(t, []any{}, reply, line)
}

// limitOf returns the limit in the reply of RL.CHECK, or -1 for an error.
func (c *conn) limitOf(t *testing.T, policy string) int64 {
	t.Helper()
	d, err := toDecision(c.do(t, "RL.CHECK", policy, "k", "COST", 0))
	if err != nil {
		return -1
	}
	return d.limit
}

// awaitLimit waits until a policy has a limit.
func (c *conn) awaitLimit(t *testing.T, policy string, limit int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("policy %s to have the limit %d", policy, limit), func() bool { return c.limitOf(t, policy) == limit })
}

// TestPolicyChangeAppliesEverywhereWithinASecond measures how long it takes until a change on one
// proxy applies on another.
func TestPolicyChangeAppliesEverywhereWithinASecond(t *testing.T) {
	const changes = 24
	proxies := startProxies(t, 2, backends(startNodes(t, 3)...))
	a, b := dial(t, proxies[0].addr), dial(t, proxies[1].addr)
	var took []time.Duration
	for i := range changes {
		a, b = b, a // each looks at a moment of its own
		began := time.Now()
		a.setPolicy(t, fmt.Sprintf("api SLIDE %d 60", 1000+i))
		require.Equal(t, int64(1000+i), a.limitOf(t, "api"), "at once where it was set")
		b.awaitLimit(t, "api", int64(1000+i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("of %d changes: median %v, 9 of 10 %v, the slowest %v", changes, took[changes/2], took[changes*9/10], took[changes-1])
	require.Less(t, took[changes*9/10], time.Second)
}

// TestPoliciesAreOnAllKindsOfNodes starts two proxies with each kind of backend.
func TestPoliciesAreOnAllKindsOfNodes(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, k backendKind) {
		args := []string{"--backend-timeout", "10000"}
		for _, url := range k.urls {
			args = append(args, "--backend", url)
		}
		first, second := startProxy(t, args...), startProxy(t, args...)
		a, b := first.ready(t), second.ready(t)
		eventually(t, "the policies to be read", func() bool {
			return strings.Contains(fmt.Sprint(b.do(t, "RL.POLICY", "LIST")), "[]")
		})
		a.setPolicy(t, "api SLIDE 100 60")
		require.IsType(t, []any{}, a.do(t, words("RL.POLICY OVERRIDE api vip:* 900 60")...))
		b.awaitLimit(t, "api", 100)
		eventually(t, "the override", func() bool {
			d, err := toDecision(b.do(t, "RL.CHECK", "api", "vip:1"))
			return err == nil && d.limit == 900
		})
		require.Equal(t, int64(899), a.decide(t, "RL.CHECK api vip:1 COST 0").remaining, "both count in one place")

		b.setPolicy(t, "api SLIDE 50 60") // it keeps the override
		a.awaitLimit(t, "api", 50)
		require.Equal(t, int64(899), a.decide(t, "RL.CHECK api vip:1 COST 0").remaining, "a changed limit counts what was used")
		first.stop(t)
		second.stop(t)
		again := startProxy(t, args...).ready(t)
		again.awaitLimit(t, "api", 50)
		require.Equal(t, int64(900), again.decide(t, "RL.CHECK api vip:1 COST 0").limit)
		require.Equal(t, int64(1), again.do(t, "RL.POLICY", "DEL", "api"))
		require.Equal(t, proxytest.ErrReply("ERR no such policy 'api'"), again.do(t, "RL.CHECK", "api", "k"))
	})
}

// TestPoliciesSurviveAFailover kills the master that has the policies.
func TestPoliciesSurviveAFailover(t *testing.T) {
	t.Parallel()
	g := redistest.StartGuarded(t)
	proxies := startProxies(t, 2, []string{"--backend", g.URL()})
	a, b := proxies[0].ready(t), proxies[1].ready(t)
	a.setPolicy(t, "api SLIDE 100 60")
	b.awaitLimit(t, "api", 100)
	eventually(t, "the replica to have the policies", func() bool { return g.Replica.Do("EXISTS", storedPolicies) == "1" })
	g.Master.Kill()
	reply := a.do(t, words("RL.POLICY SET api SLIDE 10 60")...)
	require.Regexp(t, "^UNAVAILABLE .*(nothing was changed|the change may have been stored)$", fmt.Sprint(reply))
	require.Equal(t, int64(100), b.decide(t, "RL.CHECK api k").limit, "the FAIL policy answers with the limit as last seen")
	eventually(t, "a change on the new master", func() bool {
		_, ok := a.do(t, words("RL.POLICY SET api SLIDE 70 60")...).([]any)
		return ok
	})
	b.awaitLimit(t, "api", 70)
	require.Contains(t, g.Replica.Do("GET", storedPolicies), "policy api SLIDE 70 1m")
}

// TestPoliciesStillApplyWhileTheirNodeIsAway kills the node of the policies, which comes back empty.
func TestPoliciesStillApplyWhileTheirNodeIsAway(t *testing.T) {
	t.Parallel()
	node := startNode(t)
	args := []string{"--backend", node.URL(), "--fail-policy", "open"}
	old := startProxy(t, args...)
	c := old.ready(t)
	c.setPolicy(t, "api SLIDE 100 60")
	node.Kill()
	port := fmt.Sprint(redistest.FreePort(t))
	fresh := startProxy(t, append(args, "--http-port", port)...)
	f := dial(t, fresh.addr)
	require.Regexp(t, "^UNAVAILABLE "+node.Addr+": policies have not been read yet: ", fmt.Sprint(f.do(t, "RL.CHECK", "api", "k")))
	require.Regexp(t, "^UNAVAILABLE "+node.Addr+": policies have not been read yet: ", fmt.Sprint(f.do(t, "RL.POLICY", "LIST")))
	require.Regexp(t, "^UNAVAILABLE "+node.Addr+": .*; nothing was changed", fmt.Sprint(c.do(t, words("RL.POLICY SET api SLIDE 1 60")...)))
	d := c.decide(t, "RL.CHECK api k")
	require.Equal(t, []int64{1, 100, -1}, []int64{d.allowed, d.limit, d.remaining})

	node.Run() // empty
	f.awaitLimit(t, "api", 100)
	eventually(t, "the fresh proxy to be ready", func() bool {
		r, err := http.Get("http://127.0.0.1:" + port + "/readyz")
		if err != nil {
			return false
		}
		return r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	require.Contains(t, old.Output.String(), "the stored policies were missing or out of date; stored the ones in effect again")
	node.Do("FLUSHALL")
	eventually(t, "the policies after FLUSHALL", func() bool { return node.Do("EXISTS", storedPolicies) == "1" })

	node.Pause()
	require.Regexp(t, "^UNAVAILABLE "+node.Addr+": ", fmt.Sprint(c.do(t, words("RL.POLICY SET api SLIDE 1 60")...)))
	require.Equal(t, int64(100), c.decide(t, "RL.CHECK api k").limit)
	node.Resume()
	eventually(t, "a change", func() bool {
		_, ok := c.do(t, words("RL.POLICY SET api SLIDE 60 60")...).([]any)
		return ok
	})
	f.awaitLimit(t, "api", 60)
}

// TestPoliciesOfARemovedNodeAreCopied removes the node of the policies from the list, as docs/operations.md says.
func TestPoliciesOfARemovedNodeAreCopied(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 3)
	dial(t, startProxy(t, backends(nodes...)...).addr).setPolicy(t, "api SLIDE 5 60")
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.Do("EXISTS", storedPolicies) == "1" })
	removed, rest := nodes[i], slices.Delete(slices.Clone(nodes), i, i+1)
	missing := dial(t, startProxy(t, backends(rest...)...).addr)
	eventually(t, "the policy to be unknown", func() bool { return missing.do(t, "RL.CHECK", "api", "k") == errReply("ERR no such policy 'api'") })
	require.Equal(t, "OK", removed.Do("MIGRATE", "127.0.0.1", rest[0].Port, storedPolicies, 0, 1000, "COPY", "REPLACE"))
	dial(t, startProxy(t, backends(rest...)...).addr).awaitLimit(t, "api", 5)
	missing.awaitLimit(t, "api", 5)
}

// TestDamagedPoliciesChangeNothing stores something else under the key of the policies.
func TestDamagedPoliciesChangeNothing(t *testing.T) {
	t.Parallel()
	node := startNode(t)
	p := startMeasured(t, "--backend", node.URL())
	c := p.ready(t)
	c.setPolicy(t, "api SLIDE 100 60")
	for damaged, why := range map[string]string{
		"rlproxy-policies 2 9 something of a later version\n": "it has format 2, but this version of rlproxy knows only format 1",
		"hello": "it begins with 'hello'",
		stored(9, "policy api SLIDE 5 60\npolicy web SLIDE 5\n"): "after its first line, line 2: ",
	} {
		node.Do("SET", storedPolicies, damaged)
		reply := fmt.Sprint(c.do(t, words("RL.POLICY SET api SLIDE 1 60")...))
		require.Contains(t, reply, "ERR the stored policies cannot be used: "+storedPolicies+" on "+node.Addr+": "+why)
		require.Equal(t, int64(100), c.limitOf(t, "api"))
		require.Contains(t, c.do(t, "INFO", "policies").(string), "policies_damaged:"+why)
		require.InDelta(t, 1, p.scrape(t)["policies_damaged"], 0)
		require.Equal(t, damaged, node.Do("GET", storedPolicies))
	}
	node.Do("DEL", storedPolicies)
	c.setPolicy(t, "api SLIDE 90 60")
	require.Contains(t, node.Do("GET", storedPolicies), "policy api SLIDE 90 1m")
	require.Contains(t, c.do(t, "INFO", "policies").(string), "policies_damaged:no\r\n")
}

// stored returns the stored record of a version of policies.
func stored(version int, text string) string {
	return fmt.Sprintf("rlproxy-policies 1 %d %016x\n%s", version, xxhash.Sum64String(text), text)
}

// TestTwoOperatorsAtOnceLoseNothing lets operators of two proxies change the policies as fast as they can.
func TestTwoOperatorsAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	const each = 100
	node := startNode(t)
	proxies := startProxies(t, 2, backends(node))
	var mu sync.Mutex
	done, told := make(map[int64]string), 0 // what was set, by version
	var all sync.WaitGroup
	for i, p := range proxies {
		c := p.ready(t)
		all.Go(func() {
			for n := range each {
				name := fmt.Sprintf("p%d-%d", i, n)
				replies, err := c.Exchange(words("RL.POLICY SET " + name + " SLIDE 100 60"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if fields, ok := replies[0].([]any); ok {
					done[fields[1].(int64)] += name
				} else if told++; replies[0] != proxytest.ErrReply("ERR the policies were changed concurrently; this command changed nothing, check them and try again") {
					t.Error(replies[0])
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d changes, %d were told that another one came first", len(done), told)
	require.Positive(t, told)
	require.Len(t, done, 2*each-told)
	text := node.Do("GET", storedPolicies)
	require.True(t, strings.HasPrefix(text, fmt.Sprintf("rlproxy-policies 1 %d ", len(done))), "versions are consecutive")
	for version := range int64(len(done)) {
		require.Contains(t, text, "policy "+done[version+1]+" SLIDE 100 1m\n")
	}
	require.Equal(t, len(done), strings.Count(text, "\npolicy "))
}

// TestThousandPoliciesWithTenThousandOverrides starts one proxy that finds them stored, and another that gets a change of them.
func TestThousandPoliciesWithTenThousandOverrides(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "policy p%03d SLIDE %d 60\n", i, 1000+i)
		for j := range 10 {
			fmt.Fprintf(&text, "policy-override p%03d tenant:%d:* %d 60\n", i, j, 5000+10*i+j)
		}
	}
	node := startNode(t)
	node.Do("SET", storedPolicies, stored(1, text.String()))
	proxies := startProxies(t, 2, backends(node))
	a, b := proxies[0].ready(t), proxies[1].ready(t)
	require.Equal(t, int64(10_000), a.info(t, "policy_overrides"))
	for _, i := range []int{0, 500, 999} {
		require.Equal(t, int64(5000+10*i+7), b.decide(t, fmt.Sprintf("RL.CHECK p%03d tenant:7:x", i)).limit)
	}
	a.setPolicy(t, "p500 SLIDE 42 60")
	b.awaitLimit(t, "p500", 42)
	require.Equal(t, int64(10_000), b.info(t, "policy_overrides"))
	require.Len(t, b.do(t, "RL.POLICY", "LIST"), 1000)
}
