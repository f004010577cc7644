package commands

import "slices"

// Nothing is ever published here. Subscriptions are acknowledged because clients
// such as StackExchange.Redis open a second connection for them at start.

// maxChannels and maxChannelBytes bound what one session may subscribe to.
const (
	maxChannels     = 1024
	maxChannelBytes = 64 << 10
)

func subscribeRows() []row {
	flags := []string{"pubsub", "noscript", "loading", "stale"}
	return []row{{
		name: "subscribe", arity: -2, flags: flags, group: "pubsub", since: "2.0.0", cost: "O(N) where N is the number of channels to subscribe to.",
		summary: "Acknowledges a subscription; rlproxy publishes nothing",
		args:    []arg{{name: "channel", typ: "string", multiple: true}},
		replies: "For each channel a message (a push in RESP3): subscribe, channel, number of subscriptions.",
		example: []example{{"SUBSCRIBE news", "1) \"subscribe\"\n2) \"news\"\n3) (integer) 1"}},
		run:     runSubscribe, barrier: true, subscribed: true, loud: true,
	}, {
		name: "unsubscribe", arity: -1, flags: flags, group: "pubsub", since: "2.0.0", cost: "O(N) where N is the number of clients already subscribed to a channel.",
		summary: "Ends subscriptions, all without arguments",
		args:    []arg{{name: "channel", typ: "string", optional: true, multiple: true}},
		replies: "For each channel a message (a push in RESP3): unsubscribe, channel, number of subscriptions left.",
		example: []example{{"UNSUBSCRIBE news", "1) \"unsubscribe\"\n2) \"news\"\n3) (integer) 0"}},
		run:     runUnsubscribe, barrier: true, subscribed: true, loud: true,
	}}
}

func runSubscribe(c *client, args [][]byte) {
	for _, a := range args[1:] {
		if !slices.Contains(c.subs, string(a)) {
			if len(c.subs) == maxChannels || c.subSize+len(a) > maxChannelBytes {
				c.fail(errChannels)
				return
			}
			c.subs = append(c.subs, string(a))
			c.subSize += len(a)
		}
		c.acknowledge("subscribe", a)
	}
}

func runUnsubscribe(c *client, args [][]byte) {
	if len(args) == 1 && len(c.subs) == 0 {
		c.message(3)
		c.text("unsubscribe")
		c.null()
		c.int(0)
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
	}
	c.acknowledge("unsubscribe", channel)
}

func (c *client) acknowledge(kind string, channel []byte) {
	c.message(3)
	c.text(kind)
	c.bulk(channel)
	c.int(int64(len(c.subs)))
}
