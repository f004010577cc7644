package engine

import "time"

// NodeInfo is what RL.NODES and metrics show of one node.
type NodeInfo struct {
	Name      string // host:port, or host:port/db if another node is a database of the same server
	Placement string // the name by which keys are placed; empty in a Redis Cluster
	State     string // up, suspect, down, or refuses: up, but it refuses calls
	Why       string // why the node is not up

	Facts *NodeFacts // nil: not known

	Advances int64 // of keys whose home is on the node, to this proxy
	Advanced int64 // units that this proxy may draw from these

	Layouts []Layout // stored on the node by proxies

	Traffic *Traffic // nil if the node's address is not known yet
}

// NodeFacts are what a node says of itself, every ten seconds.
type NodeFacts struct {
	Keys              int64  // in all databases
	Memory, MaxMemory int64  // bytes in use, and maxmemory; 0: no bound
	Policy            string // maxmemory-policy
	Evicts            bool   // whether it evicts keys when the memory is full
	Saves             string // how keys survive a restart: aof, rdb, no; empty: not known yet
	LostKeys          int64  // how often it has come back without its keys

	Latency  time.Duration // how long the node took to say this
	Offset   time.Duration // of the node's clock from this machine's, to half of the latency
	ClockOff bool          // whether Offset is more than windows allow
}

// NearlyFull reports whether more than nine tenths of the memory are in use. Such a node will soon evict keys, or
// refuse to count.
func (f *NodeFacts) NearlyFull() bool { return f.MaxMemory > 0 && f.Memory > f.MaxMemory/10*9 }

// Layout is a list of nodes by which proxies place keys.
type Layout struct {
	Own     bool     // this proxy's
	Names   []string // of the nodes, for placement
	Proxies []string // the proxies that use it
}
