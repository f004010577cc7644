package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine"
)

// problem is something that an operator should know at once.
type problem struct {
	Page bool   `json:"page"` // somebody should be woken: requests get wrong answers, or none
	Text string `json:"text"`

	command string // the command that shows it, which a user must be allowed to run
}

// problems returns what is wrong now, what somebody should be woken for first.
func (s *Server) problems(nodes []engine.NodeInfo, stats []engine.Stat) []problem {
	all := append(nodeProblems(nodes), failProblems(s.history.all())...)
	value := make(map[string]int64)
	for i := range stats {
		if stats[i].Metric != "" {
			value[stats[i].Metric] = stats[i].Value
		}
	}
	add := func(wrong, page bool, text string) {
		if wrong {
			all = append(all, problem{page, text, "info"})
		}
	}
	full := func(used, most string) bool { return value[most] > 0 && value[used] > value[most]/10*9 }
	add(value["layout_conflict"] > 0, true, "Another proxy has other nodes in its configuration, so both count some "+
		"keys, each on its own. RL.NODES shows which proxy.")
	add(full("memory_used_bytes", "memory_max_bytes"), true, "More than 90 % of maxmemory is used. When it is full, "+
		"requests about new keys are not counted.")
	add(full("client_memory_bytes", "client_memory_max_bytes"), true, "Clients use more than 90 % of "+
		"maxmemory-clients. When it is full, connections are closed.")
	add(value["policies_damaged"] > 0, false, "The stored policies cannot be read. Those that were read before stay "+
		"in effect.")
	add(value["config_last_reload_failed"] > 0, false, "The last reload of the configuration failed. The one before "+
		"stays in effect. The log says why.")
	return sorted(all)
}

// sorted returns the problems for which somebody should be woken, and then the others.
func sorted(all []problem) []problem {
	out := []problem{}
	for _, page := range []bool{true, false} {
		for _, p := range all {
			if p.Page == page {
				out = append(out, p)
			}
		}
	}
	return out
}

// nodeProblems returns what is wrong with nodes, each kind of problem once.
func nodeProblems(nodes []engine.NodeInfo) (all []problem) {
	of := func(page bool, one, many, rest string, wrong func(n *engine.NodeInfo) bool) {
		var names []string
		why := ""
		for i := range nodes {
			if n := &nodes[i]; wrong(n) {
				if names = append(names, n.Name); why == "" {
					why = n.Why
				}
			}
		}
		if len(names) == 0 {
			return
		}
		text := "Node " + names[0] + " " + one
		if len(names) > 1 {
			text = fmt.Sprint(len(names), " of ", len(nodes), " nodes ", many, ": ", someNames(names))
		}
		if page && why != "" {
			text += " (" + why + ")"
		}
		all = append(all, problem{page, text + rest, "rl.nodes"})
	}
	of(true, "is down", "are down", ". FAIL policies answer for its keys.",
		func(n *engine.NodeInfo) bool { return n.State == "down" })
	of(true, "refuses calls", "refuse calls", ". FAIL policies answer for its keys.",
		func(n *engine.NodeInfo) bool { return n.State == "refuses" })
	of(true, "has used more than 90 % of its memory", "have used more than 90 % of their memory",
		". When it is full, counts are lost or requests refused.",
		func(n *engine.NodeInfo) bool { return n.Facts != nil && n.Facts.NearlyFull() })
	of(false, "has a clock that is wrong by "+worstClock(nodes), "have clocks that are wrong by up to "+
		worstClock(nodes), ", compared with this machine's. Limits may admit too much.",
		func(n *engine.NodeInfo) bool { return n.Facts != nil && n.Facts.ClockOff })
	of(false, "may evict keys", "may evict keys", ", and what they count, when its memory is full. Set "+
		"maxmemory-policy noeviction.", func(n *engine.NodeInfo) bool { return n.Facts != nil && n.Facts.Evicts })
	return all
}

// worstClock returns the largest offset of a clock.
func worstClock(nodes []engine.NodeInfo) string {
	worst := time.Duration(0)
	for i := range nodes {
		if f := nodes[i].Facts; f != nil {
			worst = max(worst, f.Offset.Abs())
		}
	}
	return worst.Round(100 * time.Millisecond).String()
}

// someNames joins names. Of many it has the first three.
func someNames(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprint(" and ", more, " more")
	}
	return strings.Join(names, ", ")
}

// failProblems returns what the answers of FAIL policies in the last seconds mean for clients.
func failProblems(points []point) (all []problem) {
	const seconds = 5
	var refused, others float64
	last := points[max(0, len(points)-seconds):]
	for _, p := range last {
		refused += p.Refused / float64(len(last))
		others += (p.Fail - p.Refused) / float64(len(last))
	}
	if refused > 0 {
		all = append(all, problem{true, about(refused) + " are refused because a node does not answer.", "rl.hotkeys"})
	}
	if others > 0 {
		all = append(all, problem{true, about(others) + " are decided without their node, so more may be " +
			"admitted than the limits allow.", "rl.hotkeys"})
	}
	return all
}

// about returns a rate of requests, without digits that change all the time.
func about(rate float64) string {
	if rate < 2 {
		return "Some requests"
	}
	digit := math.Pow10(int(math.Log10(rate)) - 1)
	return fmt.Sprintf("About %.0f requests a second", math.Round(rate/digit)*digit)
}
