package clients

import (
	"net"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/resp"
	"github.com/stretchr/testify/require"
)

func TestAppendLineHasEveryFieldOfRedis(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	c := &Client{ID: 7, Memory: func() resp.Holdings { return resp.Holdings{Unread: 26, Free: 20448, Unsent: 5, Total: 22_000} }, Remote: &net.UnixAddr{Name: "/run/rlproxy", Net: "unix"}, Local: &net.TCPAddr{IP: net.IPv6loopback, Port: 6380}, Created: at}
	c.See(at.Add(2 * time.Second))
	const held = " qbuf=26 qbuf-free=20448 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=5 tot-mem=22000 events=r"
	for want, facts := range map[string]Facts{
		"id=7 addr=/run/rlproxy:0 laddr=[::1]:6380 fd=-1 name= age=9 idle=7 flags=U db=0 sub=0 psub=0 ssub=0 multi=-1" + held + " cmd=NULL user= redir=-1 resp=2 lib-name= lib-ver=\n": {Multi: -1, Proto: 2},
		"id=7 addr=/run/rlproxy:0 laddr=[::1]:6380 fd=-1 name=me age=9 idle=7 flags=PxtUeT db=0 sub=3 psub=0 ssub=0 multi=4" + held + " cmd=ping user=shop redir=0 resp=3 lib-name=go lib-ver=1\n": {
			Name: "me", Lib: "go", LibVer: "1", Tracked: true, NoEvict: true, NoTouch: true, User: "shop", Cmd: "ping", Proto: 3, Subs: 3, Multi: 4,
		},
	} {
		c.Publish(facts)
		require.Equal(t, want, string(c.AppendLine(nil, at.Add(9*time.Second))))
	}
}

func TestAddrGivesUnixSocketsPortZero(t *testing.T) {
	require.Empty(t, Addr(nil))
	require.Equal(t, "/run/a:0", Addr(&net.UnixAddr{Name: "/run/a", Net: "unix"}))
	require.Equal(t, "127.0.0.1:1", Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}))
}
