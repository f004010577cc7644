package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
)

var (
	decisions = counter("decisions_total",
		"Requests for a decision, by command, by the policy that gave the limits, and by what became of them.", "command", "policy", "result")
	decisionTime = distributionOf("decision_duration_seconds",
		"How long decisions took, from the engine getting a pipeline to its having answered all of it.", "command")
)

func (c *Config) collectDecisions(to chan<- prometheus.Metric) {
	for kind := limit.Slide; kind <= limit.GCRA; kind++ {
		command := strings.ToLower(kind.String())
		for policy, counts := range c.Observer.Counts() {
			for o := range observe.Outcome(observe.Outcomes) {
				// What a policy never had has no series: there may be many policies.
				if n := counts.Of(kind, o); n > 0 || policy == "" {
					decisions.send(to, float64(n), command, policy, o.String())
				}
			}
		}
		decisionTime.sendDurations(to, c.Observer.Durations(kind).Snapshot(), command)
	}
}
