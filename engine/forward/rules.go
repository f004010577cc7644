package forward

import (
	"errors"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/engine/forward/keyspec"
)

// dataTypes are the categories of commands on values. Those of them that are marked as dangerous are only expensive;
// they do not administer the node.
var dataTypes = []string{"@string", "@hash", "@list", "@set", "@sortedset", "@stream", "@bitmap",
	"@geo", "@hyperloglog"}

// trait is a property of a command that is not in the reply to COMMAND.
type trait uint16

const (
	// changesConnection is the trait of commands that change the state of the connection, or make the node send more
	// than one reply.
	changesConnection trait = 1 << iota
	// blocksOnRequest is the trait of commands that block only with the option BLOCK, as asksToBlock finds it.
	blocksOnRequest
	// touchesNoKey is the trait of commands that neither see nor change keys.
	touchesNoKey
	// specsSuffice is the trait of commands whose key specifications name all keys, even if they are marked as
	// incomplete. Redis 8 marks those of XREAD, since a key may be called STREAMS like the word before the keys; place
	// reports that case as ambiguous.
	specsSuffice
	// sameOnNodes is the trait of commands without keys that all nodes answer alike, since what they are about is
	// loaded on all.
	sameOnNodes
	// mendsItself is the trait of commands to all nodes that need not reach those that are away, since clients repeat
	// them when they find that one of these misses something.
	mendsItself
	// readsPatterns is the trait of commands with BY and GET, which read keys that they make of patterns, as
	// addPatterns finds them.
	readsPatterns
	// changesLibrary is the trait of commands that write to one library of functions, and to no key. The forms below
	// keep them from rlproxy's own.
	changesLibrary
	// listsKeys is the trait of commands that reply with keys that they do not name, as hide expects them.
	listsKeys
	// picksKey is the trait of commands that reply with one key, taken at random.
	picksKey
	// describesCommands is the trait of commands that only tell what other commands are.
	describesCommands
)

// traits holds the traits of commands and of subcommands. A command's traits are also those of its subcommands.
// Whatever else the rules need is in the reply to COMMAND.
var traits = map[string]trait{
	"monitor": changesConnection, "sync": changesConnection, "psync": changesConnection, "replconf": changesConnection,
	"script|debug": changesConnection, // later scripts on the connection run in the debugger

	"xread": blocksOnRequest | specsSuffice, "xreadgroup": blocksOnRequest | specsSuffice,

	"sort": readsPatterns, "sort_ro": readsPatterns,

	"function|load": changesLibrary, "function|delete": changesLibrary,
	"function|list": sameOnNodes, "function|dump": sameOnNodes,

	"script|load": mendsItself, // EVALSHA replies NOSCRIPT

	"scan": listsKeys, "clusterscan": listsKeys, "keys": listsKeys, "cluster|getkeysinslot": listsKeys,
	"randomkey": picksKey,

	"command|getkeys": describesCommands | touchesNoKey, "command|getkeysandflags": describesCommands | touchesNoKey,

	"time": touchesNoKey, "lolwut": touchesNoKey,
}

// form returns the error of a command that is not forwarded because of its words, or nil. The command has a right
// number of words.
type form func(row *commandRow, args [][]byte) error

// forms holds the forms of commands and subcommands that are not forwarded, although others are.
var forms = map[string]form{
	"xread": asksToBlock, "xreadgroup": asksToBlock,

	"move": leavesDatabase, "copy": leavesDatabase,

	"function|load": loadsOwnLibrary, "function|delete": namesOwnCode(2),
	"fcall": namesOwnCode(1), "fcall_ro": namesOwnCode(1), "evalsha": namesOwnCode(1), "evalsha_ro": namesOwnCode(1),
}

// traitsOf returns the traits of a command or subcommand.
func traitsOf(name string) trait {
	command, sub, _ := strings.Cut(name, "|")
	t := traits[command] | traits[name]
	if sub == "help" {
		t |= touchesNoKey
	}
	return t
}

// judge decides whether a command is forwarded, by the node's description. All clients share the connections to nodes,
// so a command must not block a connection, change its state, or make the node send unsolicited data.
//
// A command that writes but names no key may write to the state of rate limits, so it counts as one that administers
// the node.
func (r *commandRow) judge(flags, categories map[string]bool) {
	r.traits, r.form = traitsOf(r.name), forms[r.name]
	in := func(category string) bool { return categories[category] }
	why := ""
	switch {
	case categories["@connection"] && !r.is(describesCommands), categories["@transaction"], r.is(changesConnection):
		why = "it concerns the connection or the server, and clients share the connections to nodes"
	case flags["pubsub"]:
		why = "pub/sub is not supported, since subscribers need connections of their own " +
			"and clients share the connections to nodes"
	case (flags["blocking"] || categories["@blocking"]) && !r.is(blocksOnRequest):
		why = "it blocks, and clients share the connections to nodes"
	case flags["admin"], categories["@dangerous"] && !slices.ContainsFunc(dataTypes, in),
		flags["write"] && !r.namesKeys() && !r.askKeys && !r.is(changesLibrary):
		r.admin = true
		why = "it administers the node (see the directive passthrough-admin)"
	}
	if why != "" {
		r.refusal = "ERR '" + r.name + "' is not forwarded: " + why
	}
}

func (r *commandRow) is(t trait) bool { return r.traits&t != 0 }

// asksToBlock refuses an XREAD or XREADGROUP with the option BLOCK. Like Redis, it reads the options one by one up to
// STREAMS, since a group may have any name.
func asksToBlock(row *commandRow, args [][]byte) error {
	for i := 1; i < len(args); i++ {
		switch strings.ToUpper(string(args[i][:min(len(args[i]), len("STREAMS")+1)])) {
		case "BLOCK":
			return errors.New("ERR '" + row.name + "' is not forwarded with BLOCK: " +
				"clients share the connections to nodes. " +
				"A client that sends BLOCK by default has an option against it, as go-redis has Block: -1")
		case "STREAMS":
			return nil
		case "GROUP":
			i += 2 // the group and the consumer
		case "COUNT":
			i++
		}
	}
	return nil
}

// leavesDatabase refuses a MOVE, and a COPY with the option DB. Clients can select only one database, so the key would
// be out of their reach. The text begins as that of SELECT.
func leavesDatabase(row *commandRow, args [][]byte) error {
	isDB := func(word []byte) bool { return strings.EqualFold(string(word), "DB") }
	if row.name == "copy" && !slices.ContainsFunc(args[3:], isDB) {
		return nil
	}
	return errors.New("ERR DB index is out of range: clients reach one database, so '" + row.name +
		"' would put the key out of reach")
}

// readTips reads the tips for cluster clients: how to merge the replies of several nodes.
func (r *commandRow) readTips(tips map[string]bool) {
	how := mergeNone
	switch {
	case tips["response_policy:agg_sum"]:
		how = mergeSum
	case tips["response_policy:all_succeeded"] && r.is(mendsItself):
		how = mergeReached
	case tips["response_policy:all_succeeded"]:
		how = mergeOK
	case tips["response_policy:one_succeeded"]:
		how = mergeOne
	case tips["response_policy:agg_logical_and"]:
		how = mergeEvery
	case tips["nondeterministic_output_order"] && len(r.specs) == 0:
		how = mergeLists
	}
	switch {
	case tips["request_policy:all_shards"] || tips["request_policy:all_nodes"]:
		r.mergeNodes = how
	case !tips["request_policy:multi_shard"]:
	case len(r.specs) != 1 || r.specs[0].Index != 1 || r.specs[0].Last != -1:
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

// wholeNode reports whether the command concerns the whole node: it needs no keys and names none. If it has a wrong
// number of keys, any node refuses it.
func (r *commandRow) wholeNode(args [][]byte) bool {
	if !r.keyless || len(r.specs) == 0 {
		return r.keyless
	}
	at := r.specs[0].Index + r.specs[0].Number
	return 0 < at && at < len(args) && string(args[at]) == "0"
}

// seesAll reports whether the command may see or change every key of its node: it names no key, and is not known to
// touch none.
func (r *commandRow) seesAll(args [][]byte) bool {
	return !r.is(touchesNoKey) && (!r.namesKeys() || r.wholeNode(args))
}

// namesKeys reports whether the command has keys among its arguments.
func (r *commandRow) namesKeys() bool {
	return slices.ContainsFunc(r.specs, func(s keyspec.Spec) bool { return !s.NotKey })
}

// toAll reports whether the command goes to all nodes.
func (r *commandRow) toAll(v *lanes, to route) bool {
	return to.keys == 0 && r.mergeNodes != mergeNone && len(v.Nodes) > 1
}

// fits reports whether the command may have n words.
func (r *commandRow) fits(n int) bool { return n == r.arity || r.arity < 0 && n >= -r.arity }

// arityError returns the error of a command that has a wrong number of words.
func (r *commandRow) arityError() error {
	return errors.New("ERR wrong number of arguments for '" + r.name + "' command")
}

// lastWord returns the name of a subcommand without its command: set for config|set.
func lastWord(name string) string { return name[strings.IndexByte(name, '|')+1:] }
