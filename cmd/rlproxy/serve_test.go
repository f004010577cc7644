package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
)

func TestClientsLeaveFilesForNodesAndHTTP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, files, nodes, http, want int }{
		{10_000, 65_536, 9, 1, 10_000},
		{10_000, 1024, 0, 0, 992},
		{10_000, 1024, 9, 0, 740},
		{10_000, 1024, 9, 1, 676},
		{500, 1024, 9, 1, 500},
		{10_000, 1024, 1000, 1, 512},
		{10_000, 1, 1, 0, 1},
	} {
		got := clientsWithin(&config.Config{MaxClients: c.most, HTTPPort: c.http}, c.files, c.nodes)
		require.Equal(t, c.want, got, c)
	}
}

// An aclfile may be a pipe. When a reload reads it again, it is empty, and does not remove the users.
func TestPipeOfUsersIsReadOnce(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	_, err = w.WriteString("user shop on >secret ~shop:* +@ratelimit\n")
	require.NoError(t, errors.Join(err, w.Close()))
	c := &config.Config{ACLFile: fmt.Sprint("/dev/fd/", r.Fd()), RequirePass: "hush"}
	_, err = users(c)
	require.NoError(t, err)
	_, err = users(c)
	require.EqualError(t, err, "can't read the users: "+c.ACLFile+" is an empty pipe; a pipe can be read only once")
}

// FuzzServer sends arbitrary bytes, in chunks of any size, to a complete server and
// closes its sending side. The replies are complete, nothing follows a protocol error,
// the connection ends, nothing panics, and the next client is answered.
func FuzzServer(f *testing.F) {
	const limits = "client-query-buffer-limit 1mb\nproto-max-bulk-len 1mb\nmaxmemory 4mb\nport 0\n"
	servers := make([]*live, 2)
	addrs := make([]string, 2)
	servers[0], addrs[0] = startInside(f, limits)
	servers[1], addrs[1] = startInside(f, limits+"requirepass secret\nuser shop on nopass ~shop:* +@ratelimit +acl|whoami\n")
	for _, s := range []string{
		"PING\r\n",
		"*4\r\n$8\r\nRL.SLIDE\r\n$1\r\nk\r\n$1\r\n5\r\n$2\r\n60\r\nRL.COUNTER c 5 1s BUCKETS 10 STRICT\r\nRL.FIXED f 5 1m 9 1h COST 2\r\n",
		"HELLO 3 AUTH shop x\r\nRL.SLIDE shop:1 5 60\r\nRL.SLIDE other 5 60\r\nACL WHOAMI\r\nACL LIST\r\nRL.INSPECT shop:1\r\n",
		"AUTH secret\r\nMULTI\r\nRL.SLIDE a 5 60\r\nINFO\r\nEXEC\r\nEXEC\r\nDISCARD\r\n",
		"CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nCLIENT LIST\r\nCLIENT KILL TYPE pubsub\r\nCONFIG GET *\r\n",
		"SUBSCRIBE a b\r\nPING\r\nUNSUBSCRIBE\r\nRESET\r\nCOMMAND DOCS\r\nQUIT\r\nPING\r\n",
		"CL.THROTTLE k 5 1 60 2\r\nRL.RESET k c f\r\nRL.HOTKEYS COUNT 3\r\nTIME\r\nROLE\r\nCLUSTER SLOTS\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST / HTTP/1.1\r\n\r\n",
		"*-1\r\n*0\r\n\r\n*1\r\n$0\r\n\r\n*2\r\n$4\r\nPING\r\n$-1\r\n", "*1048577\r\n", "*1\r\n$99999999\r\n", "*2\r\n$4\r\nECHO\r\n$5\r\na\r\n+b\r\n",
		"ECHO \"\\x0d\\x0a+\"\r\nECHO 'a\r\n", "\x16\x03\x01\x02\x00\x01", strings.Repeat("*1\r\n$4\r\nPING\r\n", 3000),
		"RL.SLIDE " + strings.Repeat("k", 5000) + " 5 60\r\nWHAT \r\r\xff\x00\r\n" + strings.Repeat("x", 70000),
	} {
		for kind := range byte(4) {
			f.Add(kind*17, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, input []byte) {
		i := kind % 2
		require.NoError(t, wholeReplies(converse(t, addrs[i], input, int(kind/2))))
		require.Zero(t, servers[i].server.Stats().Panics.Load())
		pong := converse(t, addrs[i], []byte("HELLO 2 AUTH default secret\r\nPING\r\n"), 0)
		require.True(t, bytes.HasSuffix(pong, []byte("\r\n+PONG\r\n")), "%q", pong)
	})
}
