package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heat asks for a key until requests are admitted from an advance, and returns how many requests were admitted.
func heat(t *testing.T, c *conn, command string) (admitted int64) {
	t.Helper()
	began := c.info(t, "advance_decisions")
	eventually(t, "an advance", func() bool {
		for range 20 { // calls that are not combined
			d, err := toDecision(c.do(t, words(command)...))
			require.NoError(t, err)
			admitted += d.allowed
		}
		return c.info(t, "advance_decisions") > began
	})
	return admitted
}

func repeat(command string, n int) (all [][]any) {
	for range n {
		all = append(all, words(command))
	}
	return all
}

// What a proxy drew is known to its node when the proxy has ended, and what it did not draw has come back.
func TestAProxyAccountsWhenItEnds(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	args := append(backends(n), "--advance", "yes", "--advance-time", "2000")
	for name, command := range map[string]string{
		"slide":   "RL.SLIDE %s 1000000 1h",
		"counter": "RL.COUNTER %s 1000000 1h BUCKETS 100",
		"fixed":   "RL.FIXED %s 1000000 1d",
		"two":     "RL.SLIDE %s 1000000 1h 2000000 2h",
	} {
		t.Run(name, func(t *testing.T) {
			p, other := startProxy(t, args...), startProxy(t, args...)
			command := fmt.Sprintf(command, name)
			admitted := heat(t, dial(t, p.addr), command)
			p.stop(t)
			used, _ := dial(t, other.addr).usage(t, name)
			if name == "two" {
				used /= 2
			}
			require.Equal(t, admitted, used)
			d, err := toDecision(dial(t, other.addr).do(t, words(command)...))
			require.NoError(t, err)
			require.Equal(t, 1_000_000-admitted-1, d.remaining, "nothing is advanced any more")
		})
	}
}

// A setting ends advances at once, and brings them back.
func TestAdvancesEndBySetting(t *testing.T) {
	t.Parallel()
	p := startProxy(t, append(backends(startNode(t)), "--advance", "yes", "--advance-time", "2000")...)
	c := dial(t, p.addr)
	admitted := heat(t, c, "RL.SLIDE k 1000000 1h")
	require.EqualValues(t, "OK", c.do(t, "CONFIG", "SET", "advance", "no"))
	eventually(t, "the advance to end", func() bool { return c.info(t, "advances") == 0 })
	before := c.info(t, "advance_decisions")
	c.pipeline(t, repeat("RL.SLIDE k 1000000 1h", 100)...)
	require.Equal(t, before, c.info(t, "advance_decisions"))
	state := fields(t, c.do(t, "RL.INSPECT", "k").([]any)[0])
	require.EqualValues(t, admitted+100, state["used"], "all of it was given back")
	require.EqualValues(t, 0, state["advanced"])
	require.EqualValues(t, "OK", c.do(t, "CONFIG", "SET", "advance", "yes"))
	heat(t, c, "RL.SLIDE k 1000000 1h")
}

// Whatever shows decisions tells which came from advances, and where these are.
func TestAdvancesAreSeen(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	log := filepath.Join(t.TempDir(), "decisions")
	p := startProxy(t, append(backends(n), "--advance", "yes", "--advance-time", "2000", "--decision-log", log,
		"--decision-log-sample", "1")...)
	c := dial(t, p.addr)
	admitted := heat(t, c, "RL.SLIDE k 1000000 1h")
	var state, node map[string]any
	eventually(t, "an advance to be shown", func() bool {
		replies := c.pipeline(t, append(repeat("RL.SLIDE k 1000000 1h", 20), words("RL.INSPECT k"), words("RL.NODES"))...)
		for _, reply := range replies[:20] {
			d, err := toDecision(reply)
			require.NoError(t, err)
			admitted += d.allowed
		}
		state, node = fields(t, replies[20].([]any)[0]), fields(t, replies[21].([]any)[0])
		return len(state["advances"].([]any)) == 1 && node["advances"] == int64(1)
	})
	advance := fields(t, state["advances"].([]any)[0])
	require.Regexp(t, fmt.Sprintf(`^\S+:%d:[0-9a-f]{8}$`, p.Cmd.Process.Pid), advance["proxy"])
	require.Positive(t, advance["lapses-ms"])
	require.Equal(t, state["advanced"], advance["units"])
	used, advanced := state["used"].(int64), state["advanced"].(int64)
	require.LessOrEqual(t, used, admitted)
	require.GreaterOrEqual(t, used+advanced, admitted)
	require.Equal(t, 1_000_000-used-advanced, state["remaining"])

	require.Contains(t, node, "advanced")
	drawn := c.info(t, "advance_decisions")
	c.do(t, "HELLO", 3)
	key := fields(t, c.do(t, "RL.HOTKEYS").([]any)[0])
	require.Equal(t, drawn, key["drawn"])
	require.Equal(t, admitted, key["admitted"])
	eventually(t, "the lines of the decision log", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && int64(strings.Count(string(text), `"drawn":true`)) == drawn
	})
}

// A proxy that is killed takes nothing beyond its advance: the other one has the rest, exactly, when it has lapsed.
func TestAnAdvanceOfAKilledProxyLapses(t *testing.T) {
	t.Parallel()
	args := append(backends(startNode(t)), "--advance", "yes")
	p, other := startProxy(t, args...), startProxy(t, args...)
	const limit = 5000
	command := fmt.Sprintf("RL.SLIDE k %d 1h", limit)
	admitted := heat(t, dial(t, p.addr), command)
	p.Kill()
	c := dial(t, other.addr)
	for denied := false; !denied; {
		for _, reply := range c.pipeline(t, repeat(command, 50)...) {
			d, err := toDecision(reply)
			require.NoError(t, err)
			admitted += d.allowed
			denied = denied || d.allowed == 0
		}
	}
	require.LessOrEqual(t, admitted, int64(limit))
	require.Greater(t, admitted, int64(limit/4))
	eventually(t, "what was not drawn to count as used", func() bool {
		used, _ := c.usage(t, "k")
		return used == limit
	})
}

// RL.RESET and RL.RESETMATCH take effect at once, and admit no more than the limit afterwards, although advances are out.
func TestResetsWithAdvances(t *testing.T) {
	t.Parallel()
	for _, reset := range []string{"RL.RESET", "RL.RESETMATCH"} {
		t.Run(reset, func(t *testing.T) { resetWithAdvances(t, reset) })
	}
}

func resetWithAdvances(t *testing.T, reset string) {
	args := append(backends(startNode(t)), "--advance", "yes", "--advance-time", "2000")
	p, other := startProxy(t, args...), startProxy(t, args...)
	const limit = 20000
	command := fmt.Sprintf("RL.SLIDE k %d 1h", limit)
	c, o := dial(t, p.addr), dial(t, other.addr)
	heat(t, c, command)
	heat(t, o, command)
	require.EqualValues(t, 1, o.do(t, reset, "k"))
	admitted, denied := int64(0), 0
	for i := 0; denied < 20; i++ {
		for _, reply := range []*conn{c, o}[i%2].pipeline(t, repeat(command, 50)...) {
			d, err := toDecision(reply)
			require.NoError(t, err)
			admitted += d.allowed
			denied += int(1 - d.allowed)
		}
	}
	require.LessOrEqual(t, admitted, int64(limit))
	require.Greater(t, admitted, int64(limit*9/10))
}

// COST 0 says what is used, not what is advanced.
func TestAQuestionRecallsAdvances(t *testing.T) {
	t.Parallel()
	args := append(backends(startNode(t)), "--advance", "yes", "--advance-time", "2000")
	p, other := startProxy(t, args...), startProxy(t, args...)
	admitted := heat(t, dial(t, p.addr), "RL.SLIDE k 1000000 1h")
	d, err := toDecision(dial(t, other.addr).do(t, words("RL.SLIDE k 1000000 1h COST 0")...))
	require.NoError(t, err)
	require.Equal(t, 1_000_000-admitted, d.remaining)
}

// Requests with ids, and those about several keys, wait for what is advanced, too.
func TestRequestsWithIDsWaitForAdvances(t *testing.T) {
	t.Parallel()
	args := append(backends(startNode(t)), "--advance", "yes", "--advance-time", "2000")
	p, other := dial(t, startProxy(t, args...).addr), dial(t, startProxy(t, args...).addr)
	const limit = 1_000_000
	for i, form := range []string{
		"RL.SLIDE %s %d 1h COST %d ONCE a", "RL.RESERVE %s %d 1h COST %d ID a TTL 1m", "RL.SLIDE %s %d 1h COST %d AND b 1000 1h",
	} {
		n := 0
		eventually(t, "a request for all that is left to be admitted: "+form, func() bool { // not if an account takes too long
			n++
			key := fmt.Sprintf("k%d:%d", i, n)
			admitted := heat(t, p, fmt.Sprintf("RL.SLIDE %s %d 1h", key, limit))
			reply := other.do(t, words(fmt.Sprintf(form, key, limit, limit-admitted))...).([]any)
			if first, several := reply[0].([]any); several {
				reply = first
			}
			return reply[0] == int64(1)
		})
	}
}

// A window is empty when what is held has left it, whoever decides.
func TestAdvancesBesideAReservation(t *testing.T) {
	t.Parallel()
	c := dial(t, startProxy(t, append(backends(startNode(t)), "--advance", "yes")...).addr)
	c.do(t, words("RL.RESERVE k 1000000 1h COST 5 ID a TTL 1h")...)
	heat(t, c, "RL.SLIDE k 1000000 1h")
	eventually(t, "draws", func() bool {
		before := c.info(t, "advance_decisions")
		require.Greater(t, c.decide(t, "RL.SLIDE k 1000000 1h").resetAfter, (90 * time.Minute).Milliseconds())
		return c.info(t, "advance_decisions") > before
	})
}

// While a node hangs, a proxy that ends waits for it no longer than for any other call.
func TestAProxyEndsWhileItsNodeHangs(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, "--backend", n.URL(), "--advance", "yes", "--advance-time", "2000", "--backend-timeout", "300")
	heat(t, dial(t, p.addr), "RL.SLIDE k 1000000 1h")
	n.Pause()
	began := time.Now()
	p.Signal(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t))
	require.Less(t, time.Since(began), 8*time.Second, "shutdown-timeout is 10 s")
}
