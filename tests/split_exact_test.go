package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// partState is what RL.INSPECT tells of one part of a split key.
type partState struct {
	node              string
	held, used, lease int64
}

// keyState is what it tells of one state of a key.
type keyState struct {
	home                   string // its node
	used, limit, remaining int64
	parts                  map[int64]partState
}

// inspect asks for a key that is used with one command and one window, or none.
func (c *conn) inspect(t *testing.T, key string) (s keyState) {
	t.Helper()
	states, ok := c.do(t, "RL.INSPECT", key).([]any)
	require.True(t, ok)
	if len(states) == 0 {
		return s
	}
	require.Len(t, states, 1)
	state := fields(t, states[0])
	s = keyState{state["node"].(string), state["used"].(int64), state["limit"].(int64), state["remaining"].(int64), make(map[int64]partState)}
	for _, item := range state["parts"].([]any) {
		p := fields(t, item)
		s.parts[p["part"].(int64)] = partState{p["node"].(string), p["held"].(int64), p["used"].(int64), p["lease-ms"].(int64)}
	}
	return s
}

// fields reads a map.
func fields(t *testing.T, item any) map[string]any {
	t.Helper()
	flat, ok := item.([]any)
	require.True(t, ok)
	m := make(map[string]any)
	for i := 0; i < len(flat); i += 2 {
		m[flat[i].(string)] = flat[i+1]
	}
	return m
}

// TestSplitOneByOne asks one proxy of three after the other: exactly the limit is
// admitted, whatever the number of parts divides, and all that tells of the key tells
// the sum over its parts.
func TestSplitOneByOne(t *testing.T) {
	nodes := startNodes(t, 4)
	f := startFleet(t, append(backends(nodes...), "--hot-key", "hot:*", "4"))
	var links []*conn
	for _, p := range f.proxies {
		links = append(links, dial(t, p.addr))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	one := func() *conn { return links[rng.IntN(len(links))] }
	for _, line := range []string{
		"RL.SLIDE even 100 1h COST 1 SHARDS 4",
		"RL.SLIDE odd 101 1h COST 1 SHARDS 4",
		"RL.SLIDE few 3 1h COST 1 SHARDS 4",
		"RL.SLIDE one 1 1h COST 1 SHARDS 4",
		"RL.SLIDE large 1000 1h COST 900 SHARDS 4",
		"RL.SLIDE fives 97 1h COST 5 SHARDS 7",
		"RL.SLIDE hot:slide 77 1h COST 1",
		"RL.SLIDE two 50 1h 61 365d COST 1 SHARDS 4",
		"RL.COUNTER strict 64 1h COST 1 BUCKETS 10 STRICT SHARDS 3",
		"RL.COUNTER pair 53 365d COST 1 SHARDS 4",
		"RL.FIXED hot:fixed 50 365d COST 1",
	} {
		args := words(line)
		key := args[1].(string)
		var limit, cost, admitted int64
		_, err := fmt.Sscan(args[2].(string), &limit)
		require.NoError(t, err)
		_, rest, _ := strings.Cut(line, "COST ")
		_, err = fmt.Sscan(rest, &cost)
		require.NoError(t, err)
		for range 2*limit/cost + 3 {
			asked := line
			if rng.IntN(4) == 0 {
				asked += fmt.Sprint(" ID ", rng.IntN(50))
			}
			d := one().decide(t, asked)
			require.Equal(t, admitted+cost <= limit, d.allowed == 1, "%s: %d admitted", line, admitted)
			admitted += d.allowed * cost
			if rng.IntN(8) == 0 {
				d = one().decide(t, strings.Replace(line, fmt.Sprint("COST ", cost), "COST 0", 1))
				require.Equal(t, limit-admitted, d.remaining, line)
			}
		}
		if key == "two" {
			continue // it has two states
		}
		s, sum := one().inspect(t, key), int64(0)
		for _, p := range s.parts {
			sum += p.used
		}
		require.Equal(t, admitted, s.used, line)
		require.Equal(t, limit, s.limit, line)
		require.Equal(t, limit-admitted, s.remaining, line)
		if len(s.parts) > 0 {
			require.Equal(t, admitted, sum, line)
		} else {
			require.Greater(t, 4*cost, limit, "%s: a piece is enough to be lent", line)
		}
	}
	f.stop(t)
}

// A limit that is lowered and raised from call to call counts as the call brings it, for
// each of several windows.
func TestSplitChangedLimits(t *testing.T) {
	f := startFleet(t, backends(startNodes(t, 4)...))
	var links []*conn
	for _, p := range f.proxies {
		links = append(links, dial(t, p.addr))
	}
	admitted, turn := int64(0), 0
	for _, step := range []struct {
		limits string
		until  int64 // admitted then, in all
	}{
		{"40 1h 1000 2h", 40}, {"30 1h 1000 2h", 40}, {"61 1h 1000 2h", 61}, {"100 1h 70 2h", 70},
		{"10 1h 10 2h", 70}, {"500 1h 501 2h", 500}, {"501 1h 500 2h", 500}, {"501 1h 501 2h", 501},
	} {
		for range step.until - admitted + 12 {
			d := links[turn%len(links)].decide(t, "RL.SLIDE changing "+step.limits+" SHARDS 4")
			require.Equal(t, admitted < step.until, d.allowed == 1, "%s: %d admitted", step.limits, admitted)
			admitted += d.allowed
			turn++
		}
		d := links[turn%len(links)].decide(t, "RL.SLIDE changing 2000 1h 2000 2h COST 0 SHARDS 4")
		require.Equal(t, 2000-admitted, d.remaining)
	}
	f.stop(t)
}
