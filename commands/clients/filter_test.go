package clients

import (
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
)

// three returns three clients: the first has a subscription, the third another user.
func three() []*Client {
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6380}
	var all []*Client
	for id := range int64(3) {
		c := &Client{ID: id + 1, Local: local, Remote: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1000 + int(id)}}
		c.Publish(Facts{User: []string{"default", "default", "shop"}[id], Subs: []int{1, 0, 0}[id]})
		all = append(all, c)
	}
	return all
}

// chosen returns the IDs of the clients that a filter matches.
func chosen(f Filter) (ids []int64) {
	for _, c := range three() {
		if f.Matches(c) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func TestParseListSelectsByTypeOrID(t *testing.T) {
	for line, want := range map[string][]int64{
		"": {1, 2, 3}, "TYPE normal": {2, 3}, "type PUBSUB": {1}, "TYPE master": nil, "TYPE replica": nil, "ID 3 1 9": {1, 3},
	} {
		f, msg := ParseList(bytes.Fields([]byte(line)))
		require.Empty(t, msg, line)
		require.Equal(t, want, chosen(f), line)
	}
	for line, want := range map[string]string{
		"TYPE": reply.ErrSyntax, "TYPE what": "ERR Unknown client type 'what'", "TYPE normal x": reply.ErrSyntax,
		"ID": reply.ErrSyntax, "ID x": reply.ErrClientID, "WHAT 1": reply.ErrSyntax,
	} {
		_, msg := ParseList(bytes.Fields([]byte(line)))
		require.Equal(t, want, msg, line)
	}
}

func TestParseKillCombinesItsFilters(t *testing.T) {
	for line, want := range map[string]struct {
		ids    []int64
		skipMe bool
	}{
		"ID 2":                                 {[]int64{2}, true},
		"TYPE normal USER shop":                {[]int64{3}, true},
		"user default skipme no":               {[]int64{1, 2}, false},
		"SKIPME no SKIPME yes":                 {[]int64{1, 2, 3}, true},
		"ADDR 10.0.0.1:1001":                   {[]int64{2}, true},
		"LADDR 127.0.0.1:6380 ADDR 10.0.0.1:1": {nil, true},
	} {
		f, skipMe, msg := ParseKill(bytes.Fields([]byte(line)), func(user string) bool { return user != "nobody" })
		require.Empty(t, msg, line)
		require.Equal(t, want.skipMe, skipMe, line)
		require.Equal(t, want.ids, chosen(f), line)
	}
	for line, want := range map[string]string{
		"ID 0": reply.ErrKillID, "ID x": reply.ErrKillID, "TYPE x": "ERR Unknown client type 'x'", "SKIPME maybe": reply.ErrSyntax,
		"WHAT x": reply.ErrSyntax, "ID 2 USER": reply.ErrSyntax, "USER nobody ID 0": "ERR No such user 'nobody'",
	} {
		_, _, msg := ParseKill(bytes.Fields([]byte(line)), func(user string) bool { return user != "nobody" })
		require.Equal(t, want, msg, line)
	}
	require.Equal(t, []int64{3}, chosen(ByAddr("10.0.0.1:1002")))
}
