package engine

import "strconv"

// Stat is one line of INFO, and a metric if Metric is set.
type Stat struct {
	Name   string // of the line of INFO
	Value  int64
	Text   string // what the line shows in place of Value; empty if it shows Value
	Metric string // the metric's name after rlproxy_; a name that ends in _total is a counter's, any other a gauge's
	Reason string // the value of the metric's label reason; empty if the metric has no such label
	Result string // the value of the metric's label result; empty if the metric has no such label
	Help   string // what the metric is, in one sentence
}

// String returns the value as INFO shows it.
func (s *Stat) String() string {
	if s.Text != "" {
		return s.Text
	}
	return strconv.FormatInt(s.Value, 10)
}
