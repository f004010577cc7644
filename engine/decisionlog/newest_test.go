package decisionlog

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/stretchr/testify/require"
)

// groups returns the newest denials, as the names of the groups and the keys of each.
func (b *bench) groups() (all []string) {
	for _, g := range b.Newest() {
		line := fmt.Sprint(g.Policy, "|", g.Prefix, " ", g.Count, ":")
		for _, d := range g.Keys {
			line += fmt.Sprint(" ", string(d.Key), " ", d.Count)
		}
		all = append(all, line)
	}
	return all
}

// The newest denials are the first ones of their keys in their windows, also those by FAIL policy.
func TestNewestDenials(t *testing.T) {
	t.Parallel()
	b := silent(t)
	require.Empty(t, b.Newest())
	b.show(slide("a"), slide("a"), slide("b").allowed(1), slide("c").by(engine.FailClosed), slide("c").by(engine.FailOpen), slide("c").by(engine.FailClosed))
	b.wait(time.Millisecond)
	key := []byte("d")
	d := slide("d")
	d.Key, d.Policy = key, "api"
	b.show(d, slide("e").by(engine.FailError), slide("e").by(engine.FailError))
	key[0] = 'x' // the connection's buffer is used again
	groups := b.Newest()
	require.Equal(t, []string{"| 3: e 1 c 1 a 1", "api| 1: d 1"}, b.groups())
	require.Equal(t, []Denial{{
		Time: began.Add(time.Millisecond), Command: "rl.slide", Policy: "api", Key: []byte("d"), Limit: 5, Window: time.Second, Used: 5, Cost: 1,
		RetryAfter: 40 * time.Millisecond, Node: "10.0.0.1:6379", Client: "10.0.0.9:51234", ClientName: "checkout", Count: 1,
	}}, groups[1].Keys)
	require.Equal(t, Denial{
		Time: began, Command: "rl.slide", Key: []byte("c"), Limit: 5, Window: time.Second, Used: -1, Cost: 1,
		RetryAfter: 70 * time.Millisecond, Node: "10.0.0.1:6379", Fail: engine.FailClosed, Client: "10.0.0.9:51234", ClientName: "checkout", Count: 1,
	}, groups[0].Keys[1])
	require.Equal(t, engine.FailError, groups[0].Keys[0].Fail)
	b.Record(&engine.Pipeline{Requests: []engine.Request{slide("f").Request}, Results: []engine.Result{slide("f").Result}},
		observe.Sender{Addr: &net.UnixAddr{Net: "unix", Name: "@"}})
	require.Equal(t, "unix", b.Newest()[0].Keys[0].Client)
}

// A thousand keys of one tenant, and one key in a thousand windows, leave the denials of the others in place.
func TestANoisyTenantDoesNotBuryTheOthers(t *testing.T) {
	t.Parallel()
	b := silent(t)
	checked := slide("api:tenant:1")
	checked.Policy = "api"
	b.show(slide("user:7"), slide("/v1/orders"), slide("plain"), checked)
	for i := range 1000 {
		b.show(slide(fmt.Sprint("tenant:42:", i%500)))
		b.wait(2 * time.Second)
		b.show(slide("ip:1"))
	}
	all := b.groups()
	require.Len(t, all, 6)
	require.Equal(t, []string{"|ip: 1000: ip:1 1000"}, all[:1])
	require.Regexp(t, `^\|tenant: 1000: tenant:42:499 1 (tenant:42:49\d 1 ?){7}$`, all[1])
	require.Equal(t, []string{"api| 1: api:tenant:1 1", "| 1: plain 1", "|/ 1: /v1/orders 1", "|user: 1: user:7 1"}, all[2:])
}

// What is kept is bounded, whatever keys there are.
func TestNewestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	b := silent(t)
	long := strings.Repeat("x", 1000) + ":"
	b.show(slide(long))
	require.Equal(t, long[:maxPrefix], b.Newest()[0].Prefix)
	for i := range 3 * maxGroups {
		b.wait(time.Second)
		for j := range 3 * maxGroupKeys {
			b.show(slide(fmt.Sprint(i, ":", j)))
		}
	}
	all := b.Newest()
	require.Len(t, all, maxGroups)
	require.Equal(t, fmt.Sprint(3*maxGroups-1, ":"), all[0].Prefix)
	for _, g := range all {
		require.Len(t, g.Keys, maxGroupKeys)
		require.EqualValues(t, 3*maxGroupKeys, g.Count)
	}
}
