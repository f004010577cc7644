package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSplitKeyAdmitsExactlyItsLimit sends one request at a time, to any of three proxies.
// Exactly the limit is admitted, also where the number of shards does not divide it, and
// RL.INSPECT reports the sum over the shards.
func TestSplitKeyAdmitsExactlyItsLimit(t *testing.T) {
	t.Parallel()
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
			continue // inspect reads one state, and this key has two
		}
		s, sum := one().inspect(t, key), int64(0)
		for _, p := range s.shards {
			sum += p.used
		}
		require.Equal(t, admitted, s.used, line)
		require.Equal(t, limit, s.limit, line)
		require.Equal(t, limit-admitted, s.remaining, line)
		if len(s.shards) > 0 {
			require.Equal(t, admitted, sum, line)
		} else {
			require.Greater(t, 4*cost, limit, "%s: nothing was lent, though a quarter of the limit is enough for a request", line)
		}
	}
	f.stop(t)
}

// TestSplitKeyFollowsLimitsThatChange lowers and raises the limits of two windows from call
// to call. Each call is decided by its own limits.
func TestSplitKeyFollowsLimitsThatChange(t *testing.T) {
	t.Parallel()
	f := startFleet(t, backends(startNodes(t, 4)...))
	var links []*conn
	for _, p := range f.proxies {
		links = append(links, dial(t, p.addr))
	}
	admitted, turn := int64(0), 0
	for _, step := range []struct {
		limits string
		until  int64 // total number of admissions after the step
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
