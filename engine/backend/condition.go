package backend

// RefusedCall is a call that a node refused, although it is up.
type RefusedCall struct{ Key, Why string } // the name of a key of the call, and the node's error

// Condition returns the state of the node's health, or "refuses" if it is up but has refused the last call.
func (n *Node) Condition() string {
	if n.Health() == Up && n.Refused.Load() != nil {
		return "refuses"
	}
	return n.Health().String()
}

// Trouble returns why the Condition is not "up", or "" if it is.
func (n *Node) Trouble() string {
	switch r := n.Refused.Load(); {
	case n.Health() != Up:
		return n.Reason()
	case r != nil:
		return "it refused the last call: " + r.Why
	}
	return ""
}

// TakesWrites reports whether the node is up and did not refuse the last call.
func (n *Node) TakesWrites() bool { return n.Health() == Up && n.Refused.Load() == nil }
