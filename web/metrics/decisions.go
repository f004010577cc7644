package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
)

var (
	decisions = counter("decisions_total",
		"Requests for a decision, by command and by what became of them.", "command", "result")
	decisionTime = distributionOf("decision_duration_seconds",
		"How long decisions took, from the engine getting a pipeline to its having answered all of it.", "command")
)

func (c *Config) collectDecisions(to chan<- prometheus.Metric) {
	for kind := limit.Slide; kind <= limit.GCRA; kind++ {
		command := strings.ToLower(kind.String())
		for outcome := range observe.Outcomes {
			o := observe.Outcome(outcome)
			decisions.send(to, float64(c.Observer.Count(kind, o)), command, o.String())
		}
		decisionTime.sendDurations(to, c.Observer.Durations(kind).Snapshot(), command)
	}
}
