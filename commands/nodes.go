package commands

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
)

func nodesRow() row {
	return row{Command: table.Command{
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
		run: runNodes,
	}
}

func runNodes(c *client, _ [][]byte) {
	nodes := c.h.cfg.Engine.Nodes()
	c.Array(len(nodes))
	for i := range nodes {
		c.node(&nodes[i])
	}
}

func (c *client) node(n *engine.NodeInfo) {
	c.Map(14)
	c.Field("node", n.Name)
	c.Field("name", n.Placement)
	c.Field("state", n.State)
	c.Field("why", n.Why)
	c.clock(n.Facts)
	c.Text("advances")
	c.Int(n.Advances)
	c.Text("advanced")
	c.Int(n.Advanced)
	c.facts(n.Facts)
	c.Text("layouts")
	c.Array(len(n.Layouts))
	for _, l := range n.Layouts {
		c.Map(3)
		c.Text("own")
		if l.Own {
			c.Int(1)
		} else {
			c.Int(0)
		}
		c.Text("names")
		c.Texts(l.Names)
		c.Text("proxies")
		c.Texts(l.Proxies)
	}
}

// facts writes what a node says of itself, or nulls if it says nothing.
func (c *client) facts(f *engine.NodeFacts) {
	if f == nil {
		for _, name := range []string{"keys", "memory", "maxmemory", "maxmemory-policy", "saves"} {
			c.Text(name)
			c.Null()
		}
		return
	}
	c.Text("keys")
	c.Int(f.Keys)
	c.Text("memory")
	c.Int(f.Memory)
	c.Text("maxmemory")
	c.Int(f.MaxMemory)
	c.Field("maxmemory-policy", f.Policy)
	c.Field("saves", f.Saves)
}

// clock writes how long a node took to answer and how far its clock is off, or nulls if that is not known.
func (c *client) clock(f *engine.NodeFacts) {
	c.Text("latency-us")
	if f == nil {
		c.Null()
	} else {
		c.Int(f.Latency.Microseconds())
	}
	c.Text("clock-offset-ms")
	if f == nil {
		c.Null()
	} else {
		c.Int(f.Offset.Milliseconds())
	}
}
