package forward

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A reply of 100 MB passes with one copy of it in memory. A reply that is larger than
// allowed becomes an error, and the connection remains usable.
func TestLargeRepliesAreBoundedAndCopiedOnce(t *testing.T) {
	const size = 100 << 20
	s := redistest.Start(t)
	reserved := int64(0)
	reserve := func(delta int64) bool { reserved += delta; return true }
	f := open(t, func(c *Config) { c.Reserve = reserve }, s)
	for _, proto := range []int{2, 3} {
		require.Equal(t, fmt.Sprintf(":%d\r\n", size), forwardAll(t, f, proto, fmt.Sprintf("SETRANGE big %d x", size-1))[0])
		var p Pipeline
		p.Add(commandLine(t, "GET big"), proto == 3)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f.Do(&p)
		runtime.ReadMemStats(&after)
		require.NoError(t, p.Results[0].Err)
		require.Len(t, p.Results[0].Raw, size+len("$104857600\r\n\r\n"))
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size*11/10))
		require.Greater(t, reserved, int64(size-1))
		p.Reset()
		require.Zero(t, reserved)
	}

	small := open(t, func(c *Config) { c.ReplyLimit = 1 << 20 }, s)
	s.Client.SetRange(t.Context(), "half", 600<<10, "x")
	s.Client.RPush(t.Context(), "list", strings.Split(strings.Repeat("element ", 200_000), " "))
	got := forwardAll(t, small, 2, "GET big", "GET half", "GET half", "LRANGE list 0 -1", "EXISTS big")
	require.Equal(t, errNoRoom.Error(), got[0])
	require.Len(t, got[1], 600<<10+1+len("$614401\r\n\r\n"))
	require.Equal(t, errNoRoom.Error(), got[2])
	require.Equal(t, errNoRoom.Error(), got[3])
	require.Equal(t, ":1\r\n", got[4])
}

// Whatever a script makes a node reply, and attributes as well, pass byte for byte and leave the
// replies of other clients alone. Push messages are for nobody.
func TestStrangeRepliesPassByteForByte(t *testing.T) {
	s := redistest.Start(t, "--enable-debug-command", "yes")
	f := open(t, func(c *Config) { c.Admin = true }, s)
	for _, proto := range []int{2, 3} {
		straight := dialDirect(t, s, proto)
		straight.ask(t, commandLine(t, "SET a 1"))
		for _, line := range []string{
			`EVAL "local a={}; local b={a}; a[1]=b; return a" 0`, // nested arrays, and in the innermost an error
			`EVAL "redis.setresp(3) local m={} m.map={a=m} return m" 0`,
			`EVAL "redis.setresp(3) local s={} s.set={} return {s, {double=0/0}, {big_number='12'}, {verbatim_string={format='txt', string=''}}, true, false}" 0`,
			`EVAL "return {ok=string.rep('x', 100000)}" 0`, `EVAL "return {ok='', 1}" 0`, `EVAL "return {err='-\r\n+'}" 0`,
			"DEBUG PROTOCOL attrib", "DEBUG PROTOCOL null", "DEBUG PROTOCOL map", "DEBUG PROTOCOL verbatim", "DEBUG PROTOCOL bignum",
		} {
			want := straight.ask(t, commandLine(t, line))
			require.Equal(t, []string{"$1\r\n1\r\n", want, "$1\r\n1\r\n"}, forwardAll(t, f, proto, "GET a", line, "GET a"), line)
		}
		require.Equal(t, "$1\r\n1\r\n", forwardAll(t, f, proto, "GET a", "DEBUG PROTOCOL push", "GET a")[2])
	}
	require.Zero(t, f.Traffic()[0].Failed)
}

// A reply that is malformed after all costs those that follow it, and the log says so.
func TestMalformedReply(t *testing.T) {
	sound := open(t, nil, redistest.Start(t))
	require.NoError(t, sound.Join(new(Pipeline), new(Transaction), commandLine(t, "GET a")))
	var log proxytest.LockedBuffer
	fleet, err := backend.Open(backend.Config{
		Backends: []string{babble(t, "+fine\r\n*?\r\n")}, Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	f := openOn(t, fleet, Config{Settings: Settings{Timeout: 20 * time.Second}})
	f.table.table.Store(sound.table.table.Load())
	got := forwardAll(t, f, 2, "GET a", "GET b")
	require.Equal(t, "+fine\r\n", got[0])
	require.Contains(t, got[1], ": malformed reply")
	require.Contains(t, log.String(), "the node sent a malformed reply; what waited on the same connection gets none")
}

// A reply that a connection's end cuts off is lost, wherever that is, and the whole ones before it are not.
func TestCutReplyIsNoReply(t *testing.T) {
	sound := open(t, nil, redistest.Start(t))
	require.NoError(t, sound.Join(new(Pipeline), new(Transaction), commandLine(t, "GET a")))
	const whole = "$1\r\n1\r\n"
	for _, reply := range []string{"$5\r\nvalue\r\n", "*2\r\n$1\r\na\r\n$2\r\nbc\r\n", "$0\r\n\r\n", ":12\r\n", "=7\r\ntxt:abc\r\n"} {
		for n := 1; n < len(reply); n++ {
			f := openOn(t, openNodes(t, time.Second, breakOff(t, whole+reply[:n])), Config{Settings: Settings{Timeout: 20 * time.Second}})
			f.table.table.Store(sound.table.table.Load())
			got := forwardAll(t, f, 2, "GET a", "GET b")
			require.Equal(t, whole, got[0], "%q", reply[:n])
			require.Contains(t, got[1], "UNAVAILABLE ", "%q", reply[:n])
		}
	}
}
