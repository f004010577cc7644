// Package nodes has the command RL.NODES.
package nodes

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
)

// Row returns RL.NODES, which shows the nodes of an engine.
func Row(e engine.Engine) table.Row {
	return table.Row{Command: table.Command{
		Name: "rl.nodes", Arity: 1, Flags: table.AdminFlags, Group: "server", Since: "0.1.0",
		Complexity: "O(N*L) with N the number of nodes and L that of the proxies noted on them",
		Summary:    "Shows the nodes, and which lists of backends the proxies have that use them",
		Replies: "Array of maps (flat arrays in RESP2), one for each node; empty without backends:\n\n" +
			"- `node`: its address.\n" +
			"- `name`: what keys are placed by; empty in a Redis Cluster.\n" +
			"- `state`, `why`: up, suspect, down or refuses (it is up, but refused the last call), and why it is not " +
			"up.\n" +
			"- `latency-us`, `clock-offset-ms`: how long the node took to say what it says of itself (below), and " +
			"its clock minus that of the proxy; null as below.\n" +
			"- `advances`, `advanced`: how many [advances](hot-keys.md#advance) this proxy has of keys of the node, " +
			"and how many units it may still admit from them.\n" +
			"- `keys`, `memory`, `maxmemory`, `maxmemory-policy`, `saves`: what the node says of itself every 10 " +
			"seconds; null if its user may not run INFO. `saves` says how keys survive a restart: aof, " +
			"rdb, or no, if the node has saved nothing in two hours; it is empty before that.\n" +
			"- `layouts`: a map for each list of backends with which a proxy uses the node, if lists are compared: " +
			"`own`, 1 for the list of this proxy; `names`, of the nodes; and `proxies`, which have it, as " +
			"host:process:digits.",
		Examples: []table.Example{{Line: "RL.NODES",
			Reply: "1)  1) \"node\"\n    2) \"127.0.0.1:6379\"\n    3) \"name\"\n    4) \"127.0.0.1:6379/0\"\n    5) " +
				"\"state\"\n    6) \"up\"\n    7) \"why\"\n    8) \"\"\n    9) \"latency-us\"\n   10) (integer) 214\n" +
				"   11) \"clock-offset-ms\"\n   12) (integer) 0\n   13) \"advances\"\n   14) (integer) 2\n" +
				"   15) \"advanced\"\n   16) (integer) 5120\n   17) \"keys\"\n   18) (integer) 1800\n" +
				"   19) \"memory\"\n   20) (integer) 1520096\n   21) \"maxmemory\"\n" +
				"   22) (integer) 1073741824\n   23) \"maxmemory-policy\"\n   24) \"noeviction\"\n" +
				"   25) \"saves\"\n   26) \"aof\"\n   27) \"layouts\"\n   28) 1) 1) \"own\"\n" +
				"          2) (integer) 1\n          3) \"names\"\n          4) 1) \"127.0.0.1:6379/0\"\n" +
				"          5) \"proxies\"\n          6) 1) \"web-7:4242:9f86d081\""}},
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			all := e.Nodes()
			w.Array(len(all))
			for i := range all {
				write(w, &all[i])
			}
			return ""
		},
	}
}

// write writes what there is to say of a node.
func write(w reply.Writer, n *engine.NodeInfo) {
	w.Map(14)
	w.Field("node", n.Name)
	w.Field("name", n.Placement)
	w.Field("state", n.State)
	w.Field("why", n.Why)
	clock(w, n.Facts)
	w.Text("advances")
	w.Int(n.Advances)
	w.Text("advanced")
	w.Int(n.Advanced)
	facts(w, n.Facts)
	w.Text("layouts")
	w.Array(len(n.Layouts))
	for _, l := range n.Layouts {
		w.Map(3)
		w.Text("own")
		if l.Own {
			w.Int(1)
		} else {
			w.Int(0)
		}
		w.Text("names")
		w.Texts(l.Names)
		w.Text("proxies")
		w.Texts(l.Proxies)
	}
}

// facts writes what a node says of itself, or nulls if it says nothing.
func facts(w reply.Writer, f *engine.NodeFacts) {
	if f == nil {
		for _, name := range []string{"keys", "memory", "maxmemory", "maxmemory-policy", "saves"} {
			w.Text(name)
			w.Null()
		}
		return
	}
	w.Text("keys")
	w.Int(f.Keys)
	w.Text("memory")
	w.Int(f.Memory)
	w.Text("maxmemory")
	w.Int(f.MaxMemory)
	w.Field("maxmemory-policy", f.Policy)
	w.Field("saves", f.Saves)
}

// clock writes how long a node took to answer and how far its clock is off, or nulls if that is not known.
func clock(w reply.Writer, f *engine.NodeFacts) {
	w.Text("latency-us")
	if f == nil {
		w.Null()
	} else {
		w.Int(f.Latency.Microseconds())
	}
	w.Text("clock-offset-ms")
	if f == nil {
		w.Null()
	} else {
		w.Int(f.Offset.Milliseconds())
	}
}
