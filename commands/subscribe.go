package commands

import (
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
)

// rlproxy publishes nothing. It acknowledges subscriptions because clients such as
// StackExchange.Redis open a second connection for them at start. But where it forwards
// commands, a client may expect the messages of others, and gets an error.

const (
	maxChannels     = 1024     // the most channels of a session
	maxChannelBytes = 64 << 10 // the most bytes of their names
)

func subscribeRows() []row {
	flags := []string{"pubsub", "noscript", "loading", "stale"}
	return []row{{Command: table.Command{
		Name: "subscribe", Arity: -2, Flags: flags, Group: "pubsub", Since: "2.0.0",
		Complexity: "O(N) where N is the number of channels to subscribe to.",
		Summary: "An error with passthrough, since no message could be delivered. Otherwise acknowledges a " +
			"subscription; rlproxy publishes nothing",
		Args:    []table.Arg{{Name: "channel", Type: "string", Multiple: true}},
		Replies: "For each channel a message (a push in RESP3): subscribe, channel, number of subscriptions.",
	},
		run: runSubscribe, barrier: true, subscribed: true, loud: true, alone: reply.ErrNoChannel,
	}, {Command: table.Command{
		Name: "unsubscribe", Arity: -1, Flags: flags, Group: "pubsub", Since: "2.0.0",
		Complexity: "O(N) where N is the number of clients already subscribed to a channel.",
		Summary:    "Ends subscriptions: the given ones, or all",
		Args:       []table.Arg{{Name: "channel", Type: "string", Optional: true, Multiple: true}},
		Replies: "For each channel a message (a push in RESP3): unsubscribe, channel, number of remaining " +
			"subscriptions.",
	},
		run: runUnsubscribe, barrier: true, subscribed: true, loud: true,
	}}
}

func runSubscribe(c *client, args [][]byte) {
	for _, a := range args[1:] {
		if !slices.Contains(c.subs, string(a)) {
			if len(c.subs) == maxChannels || c.subSize+len(a) > maxChannelBytes || !c.s.Reserve(len(a)) {
				c.refuseChannel(reply.ErrChannels)
				return
			}
			c.subs = append(c.subs, string(a))
			c.subSize += len(a)
		}
		c.acknowledge("subscribe", a)
	}
}

// refuseChannel replies with an error. Unlike messages, CLIENT REPLY suppresses it.
func (c *client) refuseChannel(msg string) {
	mark := len(c.s.Out)
	c.Error(msg)
	if c.off || c.skip {
		c.s.Out = c.s.Out[:mark]
	}
}

func runUnsubscribe(c *client, args [][]byte) {
	if len(args) == 1 && len(c.subs) == 0 {
		c.Message(3)
		c.Text("unsubscribe")
		c.Null()
		c.Int(0)
		return
	}
	if len(args) == 1 {
		for len(c.subs) > 0 {
			c.unsubscribe([]byte(c.subs[0]))
		}
		return
	}
	for _, a := range args[1:] {
		c.unsubscribe(a)
	}
}

func (c *client) unsubscribe(channel []byte) {
	if i := slices.Index(c.subs, string(channel)); i >= 0 {
		c.subs = slices.Delete(c.subs, i, i+1)
		c.subSize -= len(channel)
		c.s.Reserve(-len(channel))
	}
	c.acknowledge("unsubscribe", channel)
}

func (c *client) acknowledge(kind string, channel []byte) {
	c.Message(3)
	c.Text(kind)
	c.Bulk(channel)
	c.Int(int64(len(c.subs)))
}
