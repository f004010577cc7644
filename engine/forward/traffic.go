package forward

import (
	"sync/atomic"

	"github.com/rlproxy/rlproxy/internal/histogram"
)

// Traffic counts the commands that were forwarded to a node since it became known.
type Traffic struct {
	Node string // the node's name

	Waiting    int                 // commands that wait to be sent now
	Commands   int64               // that were sent
	Failed     int64               // commands that were sent and got no reply
	RoundTrips *histogram.Snapshot // how long the node took to reply to a batch, or not to
}

// traffic counts what goes to a node in both protocols, for metrics.
type traffic struct {
	commands, failed atomic.Int64
	roundTrips       histogram.H
}

// Traffic returns what was asked of each node in use.
func (f *Forwarder) Traffic() []Traffic {
	v := f.lanes()
	all := make([]Traffic, len(v.Nodes))
	for i, qs := range v.Queues {
		t, d := qs[resp2].traffic, &all[i]
		d.Node, d.Commands, d.Failed = v.Nodes[i].Name(), t.commands.Load(), t.failed.Load()
		d.RoundTrips = t.roundTrips.Snapshot()
		for _, q := range qs {
			d.Waiting += q.waiting.Waiting()
		}
	}
	return all
}
