package wire

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// DecodeStates decodes the reply of the function inspect: 1 if the key's shards must be asked
// as well 1, then for each state kind 1, window 5, parameter 5, used 6, limit 5, rate 3, time to
// live in ms 6, units held 6, holds 3 and holds that have lapsed 4. It returns the states,
// sorted, with Node set to node.
func DecodeStates(reply, node string) (states []engine.Inspection, split bool, err error) {
	r := reader{s: reply}
	split = r.uint(1) == 1
	for !r.bad && r.s != "" {
		s := engine.Inspection{
			Kind: limit.Kind(r.uint(1)), Window: r.uint(5), Param: r.uint(5), // #nosec G115 -- one byte
			Used: r.uint(6), Limit: r.uint(5), Rate: r.uint(3), TTL: r.uint(6),
			Held: r.uint(6), Holds: r.uint(3), Lapsed: r.uint(4), Node: node,
		}
		s.Remaining = max(s.Limit-s.Used-s.Held, 0)
		states = append(states, s)
	}
	if err := r.end(); err != nil {
		return nil, false, err
	}
	for i := range states {
		if k := states[i].Kind; !k.Known() && k != limit.Concurrency {
			return nil, false, errInconsistent
		}
	}
	engine.SortInspections(states)
	return states, split, nil
}
