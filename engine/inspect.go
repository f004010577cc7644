package engine

import (
	"cmp"
	"slices"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Inspection is what RL.INSPECT shows of one state of a key.
type Inspection struct {
	Kind      limit.Kind
	Window    int64 // ms
	Param     int64 // called Kind.Param()
	Used      int64 // units charged that count now
	Held      int64 // units held now: they count in addition to Used
	Holds     int64 // number of holds that have the units in Held
	Lapsed    int64 // holds that have lapsed since the window last held nothing
	Limit     int64 // of the latest charge or hold
	Advanced  int64 // units that proxies may admit in their memory, see engine/advance
	Advances  []ProxyAdvance
	Remaining int64 // units of Limit that are neither used, held nor advanced
	Node      string
	TTL       int64 // ms until the key's states no longer matter
	Rate      int64 // calls in the last second that charged units, or that held units if these are more
	Shards    []Shard
}

// ProxyAdvance is what RL.INSPECT shows of units that are advanced to a proxy.
type ProxyAdvance struct {
	Proxy string // its host, the number of its process, and some digits
	Units int64  // those that it has not accounted for: some of them may have been used
	Left  int64  // ms until the advance lapses
}

// Shard is what RL.INSPECT shows of one shard of a split key.
type Shard struct {
	Number int
	Node   string
	Held   int64 // units it may admit
	Used   int64 // units it admitted
	Lease  int64 // ms until its lease ends
}

// SortInspections puts states in the order in which RL.INSPECT shows them: by command, window and parameter.
func SortInspections(states []Inspection) {
	slices.SortFunc(states, func(a, b Inspection) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Param, b.Param))
	})
}
