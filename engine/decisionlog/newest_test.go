package decisionlog

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/stretchr/testify/require"
)

// The newest denials are the first ones of their keys in their windows, also those by FAIL policy.
func TestNewestDenials(t *testing.T) {
	t.Parallel()
	b := silent(t)
	require.Empty(t, b.Newest(5))
	b.show(slide("a"), slide("a"), slide("b").allowed(1), slide("c").by(engine.FailClosed), slide("c").by(engine.FailOpen), slide("c").by(engine.FailClosed))
	b.wait(time.Millisecond)
	key := []byte("d")
	d := slide("d")
	d.Key, d.Policy = key, "api"
	b.show(d, slide("e").by(engine.FailError))
	key[0] = 'x' // the connection's buffer is used again
	require.Equal(t, []Denial{
		{
			Time: began.Add(time.Millisecond), Command: "rl.slide", Policy: "api", Key: []byte("d"), Limit: 5, Window: time.Second, Used: 5,
			RetryAfter: 40 * time.Millisecond, Node: "10.0.0.1:6379", Client: "10.0.0.9:51234", ClientName: "checkout",
		},
		{
			Time: began, Command: "rl.slide", Key: []byte("c"), Limit: 5, Window: time.Second, Used: -1,
			RetryAfter: 70 * time.Millisecond, Node: "10.0.0.1:6379", Fail: engine.FailClosed, Client: "10.0.0.9:51234", ClientName: "checkout",
		},
	}, b.Newest(2))
	require.Len(t, b.Newest(20), 3)
	b.Record(&engine.Pipeline{Requests: []engine.Request{slide("f").Request}, Results: []engine.Result{slide("f").Result}},
		observe.Sender{Addr: &net.UnixAddr{Net: "unix", Name: "@"}})
	require.Equal(t, "unix", b.Newest(1)[0].Client)
	for i := range 100 {
		b.show(slide(fmt.Sprint("key", i)))
	}
	all := b.Newest(1000)
	require.Len(t, all, 64)
	require.Equal(t, "key99", string(all[0].Key))
	require.Equal(t, "key36", string(all[63].Key))
}
