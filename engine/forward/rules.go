package forward

import "strings"

// streaming holds the commands after which a connection no longer has one reply per
// request. COMMAND has no flag for them.
var streaming = map[string]bool{"monitor": true, "sync": true, "psync": true, "replconf": true}

// dataTypes are the categories of commands on values. Those of them that are marked as
// dangerous are only expensive; they do not administer the node.
var dataTypes = []string{"@string", "@hash", "@list", "@set", "@sortedset", "@stream", "@bitmap", "@geo", "@hyperloglog"}

// judge decides whether a command is forwarded, by the node's description. All clients
// share the connections to nodes, so a command must not block a connection, change its
// state, or make the node send unsolicited data.
func (r *commandRow) judge(flags, categories map[string]bool, admin bool) {
	why := ""
	switch {
	case categories["@connection"], categories["@transaction"], streaming[r.name]:
		why = "it concerns the connection, and clients share the connections to nodes"
	case flags["pubsub"]:
		why = "pub/sub needs a connection of its own, and clients share the connections to nodes"
	case (flags["blocking"] || categories["@blocking"]) && !r.asksToBlock():
		why = "it blocks, and clients share the connections to nodes"
	case !admin && (flags["admin"] || categories["@dangerous"] && !hasAny(dataTypes, categories)):
		why = "it administers the node (see the directive passthrough-admin)"
	}
	if why != "" {
		r.refusal = "ERR '" + r.name + "' is not forwarded: " + why
	}
}

// asksToBlock reports whether a command that can block does so only with the option BLOCK,
// and then sets option. These are the commands whose keys follow options and a keyword.
func (r *commandRow) asksToBlock() bool {
	if len(r.specs) != 1 || r.specs[0].keyword == "" {
		return false
	}
	r.option = "BLOCK"
	return true
}

// blocks reports whether args has the option with which the command blocks.
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

// policies reads the tips for cluster clients about commands that go to several nodes.
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
		r.mergeNodes = how
	case !tips["request_policy:multi_shard"]:
	case len(r.specs) != 1 || r.specs[0].index != 1 || r.specs[0].last != -1:
	case how != mergeNone:
		r.mergeKeys = how
	case !hasPolicy(tips, "response_policy:"):
		r.mergeKeys = mergeArrays // an element for each key
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

// everywhere reports whether the command concerns the whole node: it needs no keys and
// names none. If it has a wrong number of keys, any node refuses it.
func (r *commandRow) everywhere(args [][]byte) bool {
	if !r.keyless || len(r.specs) == 0 {
		return r.keyless
	}
	at := r.specs[0].index + r.specs[0].number
	return 0 < at && at < len(args) && string(args[at]) == "0"
}

// fits reports whether the command may have n words.
func (r *commandRow) fits(n int) bool { return n == r.arity || r.arity < 0 && n >= -r.arity }

// lastWord returns the name of a subcommand without its command: set for config|set.
func lastWord(name string) string { return name[strings.IndexByte(name, '|')+1:] }
