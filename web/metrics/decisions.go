package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlproxy/rlproxy/engine/observe"
)

var (
	decisions = counter("decisions_total",
		"Requests for a decision, by command, by the policy that gave the limits, and by what became of them.", "command", "policy", "result")
	decisionTime = distributionOf("decision_duration_seconds",
		"How long decisions took, from the engine getting a pipeline to its having answered all of it.", "command")
)

func (c *Config) collectDecisions(to chan<- prometheus.Metric) {
	for _, by := range observe.Commands {
		command := by.String()
		for policy, counts := range c.Observer.Counts() {
			for o := range observe.Outcome(observe.Outcomes) {
				// What a policy never had has no series: there may be many policies.
				if n := counts.Of(by, o); n > 0 || policy == "" {
					decisions.send(to, float64(n), command, policy, o.String())
				}
			}
		}
		decisionTime.sendDurations(to, c.Observer.Durations(by).Snapshot(), command)
	}
}
