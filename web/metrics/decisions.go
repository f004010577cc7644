package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlproxy/rlproxy/engine/observe"
)

var (
	decisions = counter("decisions_total",
		"Requests for a decision, by command, by the policy that has the limits, and by "+
			"result.", "command", "policy", "result")
	decisionTime = distributionOf("decision_duration_seconds",
		"Duration of decisions, from when the engine gets a pipeline until it has answered all of it.", "command")
)

func (c *Config) collectDecisions(to chan<- prometheus.Metric) {
	for policy, counts := range c.Observer.Counts() {
		for _, by := range observe.Commands {
			for o := range observe.Outcome(observe.Outcomes) {
				// A policy has series only for the results that it had, because there may be many policies.
				if n := counts.Of(by, o); n > 0 || policy == "" {
					decisions.send(to, float64(n), by.String(), policy, o.String())
				}
			}
		}
	}
	for _, by := range observe.Commands {
		decisionTime.sendDurations(to, c.Observer.Durations(by).Snapshot(), by.String())
	}
}
