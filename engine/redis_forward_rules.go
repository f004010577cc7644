package engine

import "strings"

// streaming commands turn the connection into one that is no longer for requests
// and replies. No flag says so.
var streaming = map[string]bool{"monitor": true, "sync": true, "psync": true, "replconf": true}

// dataTypes are the categories of commands that work on values. Commands of these
// that are marked as dangerous are so for what they cost, not for what they do.
var dataTypes = []string{"@string", "@hash", "@list", "@set", "@sortedset", "@stream", "@bitmap", "@geo", "@hyperloglog"}

// judge decides from what the node says of a command whether it is passed on.
// Connections to nodes are shared by all clients: what blocks one, changes it or
// sends without being asked would be every client's.
func (r *commandRow) judge(flags, categories map[string]bool, admin bool) {
	why := ""
	switch {
	case categories["@connection"], categories["@transaction"], streaming[r.name]:
		why = "it is about the connection, and clients share those to nodes"
	case flags["pubsub"]:
		why = "pub/sub needs a connection of one's own to the node"
	case (flags["blocking"] || categories["@blocking"]) && !r.asksToBlock():
		why = "it blocks, and clients share the connections to nodes"
	case !admin && (flags["admin"] || categories["@dangerous"] && !hasAny(dataTypes, categories)):
		why = "it administers the node, see the directive passthrough-admin"
	}
	if why != "" {
		r.refusal = "ERR '" + r.name + "' is not passed on: " + why
	}
}

// asksToBlock tells whether a command that can block does so only when asked to, by
// the option BLOCK. Those are the ones whose keys come after options and a keyword.
func (r *commandRow) asksToBlock() bool {
	if len(r.specs) != 1 || r.specs[0].keyword == "" {
		return false
	}
	r.option = "BLOCK"
	return true
}

// blocks tells whether such a command asks to block, keys standing from first.
func (r *commandRow) blocks(args [][]byte) bool {
	for _, a := range args[1:] {
		switch {
		case len(a) == len(r.option) && strings.EqualFold(string(a), r.option):
			return true
		case len(a) == len(r.specs[0].keyword) && strings.EqualFold(string(a), r.specs[0].keyword):
			return false
		}
	}
	return false
}

func hasAny(names []string, set map[string]bool) bool {
	for _, name := range names {
		if set[name] {
			return true
		}
	}
	return false
}

// policies takes the tips that tell cluster clients how to ask several nodes.
func (r *commandRow) policies(tips map[string]bool) {
	how := mergeNone
	switch {
	case tips["response_policy:agg_sum"]:
		how = mergeSum
	case tips["response_policy:all_succeeded"]:
		how = mergeOK
	}
	switch {
	case tips["request_policy:all_shards"] || tips["request_policy:all_nodes"]:
		r.spread = how
	case !tips["request_policy:multi_shard"]:
	case len(r.specs) != 1 || r.specs[0].index != 1 || r.specs[0].last != -1:
	case how != mergeNone:
		r.split = how
	case !hasPolicy(tips, "response_policy:"):
		r.split = mergeArrays // an element for each key
	}
}

func hasPolicy(tips map[string]bool, kind string) bool {
	for tip := range tips {
		if strings.HasPrefix(tip, kind) {
			return true
		}
	}
	return false
}

// everywhere tells whether the command is about all that a node has: it needs no keys
// and names none. One that gives a wrong number of keys is refused by any node.
func (r *commandRow) everywhere(args [][]byte) bool {
	if !r.keyless || len(r.specs) == 0 {
		return r.keyless
	}
	at := r.specs[0].index + r.specs[0].number
	return at < len(args) && string(args[at]) == "0"
}

// fits tells whether n words suit the command's arity.
func (r *commandRow) fits(n int) bool { return n == r.arity || r.arity < 0 && n >= -r.arity }

// lastWord is what a subcommand is called by: config|set by set.
func lastWord(name string) string { return name[strings.IndexByte(name, '|')+1:] }
