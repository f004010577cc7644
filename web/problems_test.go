package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
)

// texts returns the problems, with ! before those for which somebody should be woken.
func texts(all []problem) (out []string) {
	for _, p := range all {
		out = append(out, map[bool]string{true: "! ", false: ""}[p.Page]+p.Text)
	}
	return out
}

func TestProblemsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	up := func(i int) engine.NodeInfo {
		return engine.NodeInfo{Name: fmt.Sprint("n", i), State: "up", Facts: &engine.NodeFacts{Memory: 90, MaxMemory: 100, Offset: 400 * time.Millisecond}}
	}
	nodes := []engine.NodeInfo{up(1), up(2), up(3), up(4), up(5), up(6), up(7)}
	s := &Server{}
	s.history.add(point{Time: 1, Decisions: 9, Denied: 9})
	stats := func(values ...any) (all []engine.Stat) {
		for i := 0; i < len(values); i += 2 {
			all = append(all, engine.Stat{Metric: values[i].(string), Value: int64(values[i+1].(int))})
		}
		return all
	}
	require.Equal(t, []problem{}, s.problems(nodes, stats("memory_used_bytes", 90, "memory_max_bytes", 100, "layout_conflict", 0)))

	nodes[0].State, nodes[0].Why = "down", "connection refused"
	nodes[1].State, nodes[1].Why = "refuses", "OOM command not allowed"
	nodes[2].Facts.Offset, nodes[2].Facts.ClockOff = -2100*time.Millisecond, true
	nodes[3].Facts.Evicts = true
	for i := range nodes[3:] {
		nodes[3+i].Facts.Memory = 91
	}
	for i := range 5 {
		s.history.add(point{Time: int64(2 + i), Refused: 12_345, Fail: 12_345 + float64(i)/10})
	}
	require.Equal(t, []string{
		"! Node n1 is down (connection refused). FAIL policies answer for its keys.",
		"! Node n2 refuses calls (OOM command not allowed). FAIL policies answer for its keys.",
		"! 4 of 7 nodes have used more than 90 % of their memory: n4, n5, n6 and 1 more. When it is full, counts are lost or requests refused.",
		"! About 12000 requests a second are refused because a node does not answer.",
		"! Some requests are decided without their node, so more may be admitted than the limits allow.",
		"! Another proxy has other nodes in its configuration, so both count some keys, each on its own. RL.NODES shows which proxy.",
		"! More than 90 % of maxmemory is used. When it is full, requests about new keys are not counted.",
		"! Clients use more than 90 % of maxmemory-clients. When it is full, connections are closed.",
		"Node n3 has a clock that is wrong by 2.1s, compared with this machine's. Limits may admit too much.",
		"Node n4 may evict keys, and what they count, when its memory is full. Set maxmemory-policy noeviction.",
		"The stored policies cannot be read. Those that were read before stay in effect.",
		"The last reload of the configuration failed. The one before stays in effect. The log says why.",
	}, texts(s.problems(nodes, stats("layout_conflict", 1, "memory_used_bytes", 91, "memory_max_bytes", 100, "client_memory_bytes", 91, "client_memory_max_bytes", 100,
		"policies_damaged", 1, "config_last_reload_failed", 1))))

	for i := range nodes {
		nodes[i].State, nodes[i].Why = "down", "no answer in time"
	}
	require.Equal(t, "! 7 of 7 nodes are down: n1, n2, n3 and 4 more (no answer in time). FAIL policies answer for its keys.", texts(s.problems(nodes, nil))[0])
}

func TestProblemsNeedTheRightToTheirCommands(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default off", "boss on >hush ~* +@all", "shop on >hush ~shop:* +rl.hotkeys", "info on >hush ~* +rl.hotkeys +info")}, NoNodes, nil)
	s.engine.set(engine.NodeInfo{Name: "a:1", State: "down", Why: "cut off"})
	s.stats.Store(&[]engine.Stat{{Metric: "config_last_reload_failed", Value: 1}})
	for user, want := range map[string]int{"boss": 2, "shop": 0, "info": 1} {
		var skip any
		var shown snapshot
		w := s.watch(t, user+":hush")
		require.Equal(t, "history", w.next(t, &skip))
		require.Equal(t, "snapshot", w.next(t, &shown))
		require.Len(t, shown.Problems, want, user)
	}
}
