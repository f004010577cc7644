package purse

import "github.com/rlproxy/rlproxy/engine"

// Stats returns what INFO and metrics show of advances.
func (p *Purse) Stats() []engine.Stat {
	c := p.Totals()
	return []engine.Stat{
		{Name: "advance_keys", Value: c.Kept, Metric: "advance_keys",
			Help: "Hot keys, by limits, for which this proxy counts requests to ask for advances."},
		{Name: "advances", Value: c.Out, Metric: "advances", Help: "Advances that this proxy has."},
		{Name: "advance_units", Value: c.Left, Metric: "advance_units",
			Help: "Units that this proxy may admit from its advances."},
		{Name: "advance_decisions", Value: c.Draws, Metric: "advance_decisions_total",
			Help: "Requests that were admitted from advances, without asking a node."},
		{Name: "advance_calls", Value: c.Calls, Metric: "advance_calls_total",
			Help: "Calls to nodes that accounted for advances, or asked for units."},
		{Name: "advance_refused", Value: c.Refused, Metric: "advance_refused_total",
			Help: "Calls that asked a node for units and got none, for lack of room."},
		{Name: "advance_calms", Value: c.Calms, Metric: "advance_calms_total",
			Help: "Calls that asked a node for units and got none, because it had lately recalled some of the key."},
		{Name: "advance_recalls", Value: c.Recalls, Metric: "advance_recalls_total",
			Help: "Advances that a node recalled."},
		{Name: "advance_late", Value: c.Late, Metric: "advance_late_total",
			Help: "Recalled advances that came back when their node waited no more for them."},
		{Name: "advance_lapses", Value: c.Lapsed, Metric: "advance_lapses_total",
			Help: "Advances that lapsed before this proxy could account for them."},
		{Name: "advance_units_lapsed", Value: c.Unused, Metric: "advance_units_lapsed_total",
			Help: "Units of lapsed advances that were charged although no request had used them."},
		{Name: "advance_slowest_call_us", Value: c.Slowest.Microseconds()},
	}
}

// Describe adds to what is shown of nodes the advances of their keys. of returns the index of a key's node.
func (p *Purse) Describe(nodes []engine.NodeInfo, of func(key []byte) int) {
	p.Out(func(key string, units int64) {
		d := &nodes[of([]byte(key))]
		d.Advances, d.Advanced = d.Advances+1, d.Advanced+units
	})
}
