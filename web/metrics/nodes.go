package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlproxy/rlproxy/engine"
)

var (
	nodeUp = gauge("node_up",
		"1 while requests are sent to the node, 0 while it is down and FAIL policies answer in its place.", "node")
	nodeRefuses = gauge("node_refuses",
		"1 while the node is up but refused the last call, for example because it lacks memory or permissions, else "+
			"0.", "node")
	nodeTrouble = gauge("node_trouble_info",
		"1, with the reason in the label why, while the node is down or refuses calls; 0, with an empty why, while "+
			"nothing is wrong with it.", "node", "why")
	nodeLatency = gauge("node_latency_seconds",
		"How long the node took to say what it says of itself, which it is asked every 10 seconds.", "node")
	nodeOffset = gauge("node_clock_offset_seconds",
		"The node's clock minus this machine's, accurate to half of the latency. It is measured together with "+
			"rlproxy_node_latency_seconds.", "node")
	nodeClockOff = gauge("node_clock_off",
		"1 while the offset of the node's clock is more than a second, or than a hundredth of the shortest window "+
			"that was asked for within the last minutes, else 0.", "node")
	nodeKeys = gauge("node_keys",
		"Keys in all databases of the node, as it said within the last 10 seconds.", "node")
	nodeMemory = gauge("node_memory_used_bytes",
		"Memory that the node uses.", "node")
	nodeMemoryMax = gauge("node_memory_max_bytes",
		"The node's maxmemory, or 0 if it has no bound.", "node")
	nodeEvicts = gauge("node_evicts",
		"1 if the node evicts keys when its memory is full, and with them what was counted, else 0.", "node")
	nodeUnsaved = gauge("node_saves_nothing",
		"1 if the node has changed keys and saved nothing in two hours, so that a restart loses them, else 0.", "node")
	nodeLostKeys = counter("node_lost_keys_total",
		"How often the node has come back without its keys, so that its limits began at 0.", "node")
	nodeWaiting = gauge("node_queue_requests",
		"Requests that wait to be sent to the node.", "node")
	nodeWaits = distributionOf("node_queue_duration_seconds",
		"How long requests waited to be sent to the node.", "node")
	nodeOverflows = counter("node_queue_overflows_total",
		"Requests that were not sent to the node because its queue was full or they had waited too long.", "node")
	nodeTime = distributionOf("node_round_trip_duration_seconds",
		"How long the node took to reply to a batch of requests, or the proxy to give up.", "node")
	nodeBatches = distributionOf("node_batch_requests",
		"Requests in a batch, which is what goes to the node in one round trip.", "node")
	nodeCombined = counter("node_combined_requests_total",
		"Requests that were sent to the node combined with an equal request before them.", "node")
	nodeErrors = counter("node_errors_total",
		"Calls of the node that failed, by kind of error. A call has up to 64 different requests.", "node", "kind")
	nodeFailAnswers = counter("node_fail_answers_total",
		"Requests that a FAIL policy answered in place of the node.", "node", "fail")
	nodeAnswered = gauge("node_last_answer_timestamp_seconds",
		"When the node last answered a call, in seconds since 1970, or 0 if it has not yet.", "node")
)

func (c *Config) collectNodes(to chan<- prometheus.Metric) {
	nodes := c.Engine.Nodes()
	seen := make(names)
	for i := range nodes {
		if seen.add(nodes[i].Name) {
			collectNode(to, &nodes[i])
		}
	}
}

func collectNode(to chan<- prometheus.Metric, n *engine.NodeInfo) {
	label := n.Name
	nodeUp.send(to, oneIf(n.State != "down"), label)
	nodeRefuses.send(to, oneIf(n.State == "refuses"), label)
	nodeTrouble.send(to, oneIf(n.Why != ""), label, bounded(n.Why))
	if f := n.Facts; f != nil {
		nodeLatency.send(to, f.Latency.Seconds(), label)
		nodeOffset.send(to, f.Offset.Seconds(), label)
		nodeClockOff.send(to, oneIf(f.ClockOff), label)
		nodeKeys.send(to, float64(f.Keys), label)
		nodeMemory.send(to, float64(f.Memory), label)
		nodeMemoryMax.send(to, float64(f.MaxMemory), label)
		nodeEvicts.send(to, oneIf(f.Evicts), label)
		nodeUnsaved.send(to, oneIf(f.Saves == "no"), label)
		nodeLostKeys.send(to, float64(f.LostKeys), label)
	}
	t := n.Traffic
	if t == nil {
		return
	}
	nodeWaiting.send(to, float64(t.Waiting), label)
	nodeWaits.sendDurations(to, t.Waits, label)
	nodeOverflows.send(to, float64(t.Overflows), label)
	nodeTime.sendDurations(to, t.RoundTrips, label)
	nodeBatches.sendSizes(to, &t.Batches, label)
	nodeCombined.send(to, float64(t.Combined), label)
	for _, f := range t.Failures {
		nodeErrors.send(to, float64(f.Count), label, f.Kind)
	}
	for p := engine.FailClosed; int(p) < engine.FailPolicies; p++ {
		nodeFailAnswers.send(to, float64(t.FailAnswers[p]), label, p.String())
	}
	answered := 0.0
	if !t.Answered.IsZero() {
		answered = float64(t.Answered.UnixMicro()) / 1e6
	}
	nodeAnswered.send(to, answered, label)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

var (
	forwardWaiting = gauge("forward_queue_commands",
		"Forwarded commands that wait to be sent to the node.", "node")
	forwardCommands = counter("forward_commands_total",
		"Forwarded commands that were sent to the node.", "node")
	forwardErrors = counter("forward_errors_total",
		"Forwarded commands that were sent to the node and got no reply. An error reply is a reply.", "node")
	forwardTime = distributionOf("forward_round_trip_duration_seconds",
		"How long the node took to reply to a batch of forwarded commands, or the proxy to give up.", "node")
)

func (c *Config) collectForward(to chan<- prometheus.Metric) {
	if c.Forward == nil {
		return
	}
	nodes := c.Forward.Traffic()
	seen := make(names)
	for i := range nodes {
		t := &nodes[i]
		if !seen.add(t.Node) {
			continue
		}
		forwardWaiting.send(to, float64(t.Waiting), t.Node)
		forwardCommands.send(to, float64(t.Commands), t.Node)
		forwardErrors.send(to, float64(t.Failed), t.Node)
		forwardTime.sendDurations(to, t.RoundTrips, t.Node)
	}
}

// names is the nodes that have been collected. Sentinels may name one server for two masters for a
// moment, and a metric may occur only once.
type names map[string]bool

// add adds a name, and reports whether it is new.
func (n names) add(name string) bool {
	if n[name] {
		return false
	}
	n[name] = true
	return true
}
