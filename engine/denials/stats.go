package denials

import "github.com/rlproxy/rlproxy/engine"

// Stats returns what INFO and metrics show of the cache.
func (m *Cache) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "denials_remembered", Value: m.Kept(), Metric: "denials_remembered",
			Help: "Denials in memory. Those that have expired count until their key is asked about or another takes " +
				"their place."},
		{Name: "denials_answered", Value: m.Answers(), Metric: "denials_answered_total",
			Help: "Requests that were denied from memory, without asking a node."},
	}
}
