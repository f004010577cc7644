package clients

import (
	"cmp"
	"net"
	"strconv"
	"time"
)

// unmeasured holds fields of Redis that rlproxy does not measure. Client libraries parse
// each of them as a number, and fail if one is missing.
const unmeasured = " argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0"

// AppendLine appends the client's line of CLIENT LIST.
func (c *Client) AppendLine(b []byte, now time.Time) []byte {
	f := c.Facts()
	flags := ""
	for _, x := range []struct {
		flag string
		on   bool
	}{{"P", f.Subs > 0}, {"b", f.Waits}, {"x", f.Multi >= 0}, {"t", f.Tracked}, {"U", onUnix(c.Remote)},
		{"e", f.NoEvict}, {"T", f.NoTouch}} {
		if x.on {
			flags += x.flag
		}
	}
	redir := int64(-1)
	if f.Tracked {
		redir = 0
	}
	if flags == "" {
		flags = "N"
	}
	idle := now.UnixMilli() - c.seen.Load()
	b = appendPair(b, "id", c.ID)
	b = append(b, " addr="+Addr(c.Remote)+" laddr="+Addr(c.Local)+" fd=-1 name="+f.Name...)
	b = appendPair(b, " age", int64(now.Sub(c.Created)/time.Second))
	b = appendPair(b, " idle", max(idle, 0)/1000)
	b = append(b, " flags="+flags+" db=0"...)
	b = appendPair(b, " sub", int64(f.Subs))
	b = append(b, " psub=0 ssub=0"...)
	b = appendPair(b, " multi", int64(f.Multi))
	m := c.Memory()
	b = appendPair(b, " qbuf", m.Unread)
	b = appendPair(b, " qbuf-free", m.Free)
	b = append(b, unmeasured...)
	b = appendPair(b, " omem", m.Unsent)
	b = appendPair(b, " tot-mem", m.Total)
	b = append(b, " events=r cmd="+cmp.Or(f.Cmd, "NULL")+" user="+f.User...)
	b = appendPair(b, " redir", redir)
	b = appendPair(b, " resp", int64(f.Proto))
	return append(b, " lib-name="+f.Lib+" lib-ver="+f.LibVer+"\n"...)
}

func appendPair(b []byte, name string, n int64) []byte {
	b = append(append(b, name...), '=')
	return strconv.AppendInt(b, n, 10)
}

// Addr formats an address as Redis does: the path of a Unix socket has port 0.
func Addr(a net.Addr) string {
	switch {
	case a == nil:
		return ""
	case onUnix(a):
		return a.String() + ":0"
	}
	return a.String()
}

// onUnix reports whether an address is that of a Unix socket.
func onUnix(a net.Addr) bool { return a != nil && a.Network() == "unix" }
