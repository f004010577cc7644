package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// inspectBoth returns the units in use of a key and of its shadow, each with one command and window.
func (c *conn) inspectBoth(t *testing.T, key string) (used, shadow int64) {
	t.Helper()
	for _, item := range c.do(t, "RL.INSPECT", key).([]any) {
		if state := fields(t, item); state["shadow"] == int64(1) {
			shadow += state["used"].(int64)
		} else {
			used += state["used"].(int64)
		}
	}
	return used, shadow
}

// An enforced and a shadow limit of the same key never affect each other, wherever they are stored and
// however many shards they have.
func TestShadowsAndTheirKeysAreIndependent(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"list":     func(t *testing.T) []string { return backends(startNodes(t, 3)...) },
		"cluster": func(t *testing.T) []string {
			return []string{"--backend", redistest.StartCluster(t, 3, nil).URL(), "--backend-timeout", "10000"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(start(t), "--hot-key", "hot:?", "3")
			links := []*conn{dial(t, startProxy(t, args...).addr)}
			if name != "embedded" {
				links = append(links, dial(t, startProxy(t, args...).addr))
			}
			rng := rand.New(rand.NewPCG(5, 6))
			used := map[string]int64{} // by line
			var lines []string
			for _, key := range []string{"a", "b:{c}%", "hot:1", "hot:2", "few"} {
				lines = append(lines, "RL.SLIDE "+key+" 40 1h", "RL.SLIDE "+key+" 30 1h SHADOW")
			}
			lines = append(lines, "RL.COUNTER n 40 365d SHARDS 4", "RL.COUNTER n 25 365d SHADOW SHARDS 3", "RL.FIXED f 40 365d SHADOW", "RL.FIXED f 20 365d")
			for range 1000 {
				line := lines[rng.IntN(len(lines))]
				w := words(line)
				limit := int64(30)
				_, err := fmt.Sscan(w[2].(string), &limit)
				require.NoError(t, err)
				shadow := strings.Contains(line, "SHADOW")
				d := links[rng.IntN(len(links))].decide(t, line)
				room := used[line] < limit
				require.Equal(t, room, d.retryAfter == 0, "%s: %d used, %+v", line, used[line], d)
				require.Equal(t, room || shadow, d.allowed == 1, line)
				if room {
					used[line]++
				}
			}
			for i := 0; i < len(lines); i += 2 {
				key := words(lines[i])[1].(string)
				own, shadow := used[lines[i]], used[lines[i+1]]
				if strings.Contains(lines[i], "SHADOW") {
					own, shadow = shadow, own
				}
				var gotOwn, gotShadow int64
				eventually(t, "loans of "+key+" to arrive", func() bool {
					gotOwn, gotShadow = links[0].inspectBoth(t, key)
					return gotOwn == own && gotShadow == shadow
				})
				require.EqualValues(t, 1, links[0].do(t, "RL.RESET", key), "one key")
				require.Empty(t, links[0].do(t, "RL.INSPECT", key))
				require.EqualValues(t, 0, links[0].do(t, "RL.RESET", key))
			}
		})
	}
}

// A shadow has a stored key of its own, which expires like all others.
func TestShadowsHaveStoredKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	c := dial(t, startProxy(t, backends(n)...).addr)
	for _, line := range []string{
		"RL.SLIDE k 5 60", "RL.SLIDE k 5 60 SHADOW", "RL.SLIDE {a}% 5 60 SHADOW", "RL.SLIDE k%s 5 60", "RL.FIXED x\xffs 5 60", "RL.FIXED x\xffs 5 60 SHADOW",
	} {
		require.EqualValues(t, 1, c.decide(t, line).allowed)
	}
	keys := n.keys(t)
	require.ElementsMatch(t, []string{"rl:{k}", "rl:{k%s}", "rl:{%7Ba%7D%25%s}", "rl:{k%25s}", "rl:{x\xffs}", "rl:{x\xffs%s}"}, keys)
	for _, key := range keys {
		require.Positive(t, n.PTTL(t.Context(), key).Val(), key)
	}
}

// No FAIL policy denies a request with SHADOW. Rules match the client's key, and what FAIL LOCAL
// counted for a shadow is written back to the shadow.
func TestNoFailPolicyDeniesShadows(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, "--backend", n.URL(), "--backend-timeout", "500", "--fail-policy", "closed", "--fail-policy", "api:?", "local")
	c := dial(t, p.addr)
	eventually(t, "the node to be asked", func() bool { return c.decide(t, "RL.SLIDE warm 1000000 60").remaining >= 0 })
	n.Pause()
	for _, option := range []string{"", "FAIL OPEN", "FAIL CLOSED", "FAIL LOCAL", "FAIL ERROR"} {
		require.Equal(t, decision{1, 7, -1, 0, 0}, c.decide(t, "RL.SLIDE k 7 1h 9 2h SHADOW "+option), option)
	}
	before := c.info(t, "answered_local")
	for range 3 {
		require.Equal(t, decision{1, 2, -1, 0, 0}, c.decide(t, "RL.SLIDE api:1 2 1h SHADOW"), "also what the local count would deny")
	}
	require.EqualValues(t, 3, c.info(t, "answered_local")-before, "by the rule for api:?")
	require.IsType(t, errReply(""), c.do(t, "RL.RESET", "k"), "a reset cannot be known to be done")
	n.Resume()
	eventually(t, "the node to be back, and what was counted to be written back", func() bool {
		reply, ok := c.do(t, "RL.INSPECT", "api:1").([]any)
		return ok && len(reply) > 0
	})
	used, shadow := c.inspectBoth(t, "api:1")
	require.Equal(t, []int64{0, 2}, []int64{used, shadow})
}

// Requests that SHADOW would have denied are counted separately, and not as denials.
func TestShadowDenialsAreCountedSeparately(t *testing.T) {
	t.Parallel()
	log, args := newDecisionLog(t)
	m := startMeasured(t, args...)
	c := dial(t, m.addr)
	for range 4 {
		require.EqualValues(t, 1, c.decide(t, "RL.SLIDE k 1 1h SHADOW").allowed)
	}
	require.EqualValues(t, 1, c.decide(t, "RL.SLIDE k 9 1h").allowed)

	require.Equal(t, map[string]int{"allowed": 1, "shadow_allowed": 1, "shadow_denied": 3}, m.scrape(t).decided("rl.slide"))
	require.EqualValues(t, 3, c.info(t, "shadow_denied"))
	require.Equal(t, []hotKey{{key: "k", admitted: 1, shards: 1}}, slices.Collect(func(yield func(hotKey) bool) {
		for _, k := range c.hotKeys(t, 10) {
			k.rate = 0
			yield(k)
		}
	}))
	c.do(t, "HELLO", 3)
	shown := c.do(t, "RL.HOTKEYS").([]any)
	require.Len(t, shown, 1)
	require.EqualValues(t, 3, fields(t, shown[0])["shadow-denied"])

	m.stop(t)
	lines := log.lines(t)
	require.Len(t, lines, 1)
	require.Equal(t, []any{"denial", "k", true, 1.0}, []any{lines[0]["event"], lines[0]["key"], lines[0]["shadow"], lines[0]["limit"]})
}

// A policy may have SHADOW. Then RL.CHECK denies no request, not even for keys with a BLOCKED override.
func TestPoliciesWithShadowDenyNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		c.do(t, "RL.POLICY", "SET", "trial", "SLIDE", 1, "1h", "SHADOW")
		c.do(t, "RL.POLICY", "OVERRIDE", "trial", "bad", "BLOCKED")
		require.EqualValues(t, 0, c.decide(t, "RL.CHECK trial k").retryAfter)
		for range 3 {
			d := c.decide(t, "RL.CHECK trial k")
			require.Positive(t, d.retryAfter)
			require.EqualValues(t, 1, d.allowed)
		}
		require.Equal(t, decision{1, 0, 0, 1000, 1000}, c.decide(t, "RL.CHECK trial bad"))
		require.EqualValues(t, 4, c.info(t, "shadow_denied"))

		require.Equal(t, decision{1, 1, 0, 0, 3_600_001}, c.decide(t, "RL.SLIDE trial:k 1 1h"), "the enforced limit of the same key")
		c.do(t, "RL.POLICY", "SET", "trial", "SLIDE", 1, "1h")
		require.EqualValues(t, 0, c.decide(t, "RL.CHECK trial k").allowed, "enforced, the policy counts what was enforced")
		used, shadow := c.inspectBoth(t, "trial:k")
		require.Equal(t, []int64{1, 1}, []int64{used, shadow})
		require.EqualValues(t, 1, c.do(t, "RL.RESET", "trial:k"))
	})
}
