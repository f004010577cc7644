package wire

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// KeyStates is the reply of the function inspect.
type KeyStates struct {
	Split  bool        `msg:"split"` // the key's shards must be asked as well
	States []Inspected `msg:"states"`
}

// Inspected is a state, as engine.Inspection has it.
type Inspected struct {
	Kind   limit.Kind `msg:"kind,kind"`
	Window int64      `msg:"window,number"`
	Param  int64      `msg:"parameter,number"`
	Used   int64      `msg:"used,number"`
	Limit  int64      `msg:"limit,number"`
	Rate   int64      `msg:"rate,count"`
	TTL    int64      `msg:"ttl,number"`
	Held   int64      `msg:"held,number"`
	Holds  int64      `msg:"holds,count"`
	Lapsed int64      `msg:"lapsed,count"`

	Advanced []Advanced `msg:"advanced"`
}

// Advanced is an advance, as engine.ProxyAdvance has it.
type Advanced struct {
	Proxy string `msg:"proxy"`
	Units int64  `msg:"units,units"`
	Left  int64  `msg:"left,ms"`
}

// DecodeStates decodes the reply of the function inspect. It returns the states, sorted, with Node set to node.
func DecodeStates(reply, node string) (states []engine.Inspection, split bool, err error) {
	var all KeyStates
	if err := Unpack(reply, &all); err != nil {
		return nil, false, err
	}
	for _, s := range all.States {
		param, length, ok := limit.FromNode(s.Kind, s.Param, s.Window)
		if !s.Kind.Known() || s.Kind == limit.Fixed && !ok {
			return nil, false, errInconsistent
		}
		state := engine.Inspection{
			Kind: s.Kind, Window: length, Param: param, Used: s.Used, Limit: s.Limit, Rate: s.Rate, TTL: s.TTL,
			Held: s.Held, Holds: s.Holds, Lapsed: s.Lapsed, Node: node,
		}
		for _, a := range s.Advanced {
			state.Advanced += a.Units
			state.Advances = append(state.Advances, engine.ProxyAdvance(a))
		}
		state.Remaining = max(s.Limit-s.Used-s.Held-state.Advanced, 0)
		states = append(states, state)
	}
	engine.SortInspections(states)
	return states, all.Split, nil
}
