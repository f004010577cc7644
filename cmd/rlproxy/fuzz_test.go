package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startInside serves a configuration in this process, and returns where.
func startInside(f *testing.F, content string) (*live, string) {
	f.Helper()
	c, err := read(content)
	require.NoError(f, err)
	ready, err := prepare(c)
	require.NoError(f, err)
	quiet := slog.New(slog.DiscardHandler)
	eng, err := openEngine(c, quiet)
	require.NoError(f, err)
	now := &live{}
	now.apply(c, ready)
	server := newServer(c, now, ready, eng, quiet)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // until the clean-up
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(f, server.Shutdown(ctx))
		require.NoError(f, <-ended)
		require.NoError(f, eng.Close())
		require.Zero(f, server.Stats().Panics.Load())
		require.Zero(f, server.Stats().Held.Load())
	})
	return now, l.Addr().String()
}

// FuzzServer sends any bytes, in pieces of any size, to the whole server, and closes
// its side. What comes back is whole RESP, nothing follows a protocol error, the
// connection ends, nothing panics, and the next client is answered.
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

// converse sends bytes, size at a time if it is not 0, and returns all that comes
// back until the server closes.
func converse(t *testing.T, addr string, input []byte, size int) []byte {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	go func() { // ends when all is sent, or the connection is closed
		for size > 0 && len(input) > size && len(input) < 200*size {
			if _, err := conn.Write(input[:size]); err != nil {
				return
			}
			input = input[size:]
		}
		_, _ = conn.Write(input) // the server may close first, as it should after an error
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	require.NoError(t, err, "the connection did not end in order; so far %q", got)
	return got
}

// wholeReplies tells what is wrong with a sequence of replies.
func wholeReplies(b []byte) error {
	for len(b) > 0 {
		last := bytes.HasPrefix(b, []byte("-ERR Protocol error"))
		rest, err := skipReply(b, 0)
		if err != nil {
			return err
		}
		if last && len(rest) > 0 {
			return fmt.Errorf("after a protocol error: %q", rest)
		}
		b = rest
	}
	return nil
}

// skipReply returns what follows the reply that b begins with.
func skipReply(b []byte, depth int) ([]byte, error) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 || depth > 10 {
		return nil, fmt.Errorf("no reply: %q", b)
	}
	if bytes.ContainsAny(line, "\r\n") {
		return nil, fmt.Errorf("a line in a line: %q", line)
	}
	switch line[0] {
	case '+', '-':
		return rest, nil
	case '_', '#', ',':
		return rest, nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return nil, fmt.Errorf("no integer: %q", line)
	}
	switch line[0] {
	case ':':
		return rest, nil
	case '$', '=':
		if n < 0 {
			return rest, nil
		}
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return nil, fmt.Errorf("a bulk that is not %d bytes: %q", n, rest)
		}
		return rest[n+2:], nil
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, fmt.Errorf("no type: %q", line)
	}
	for range n {
		if rest, err = skipReply(rest, depth+1); err != nil {
			return nil, err
		}
	}
	return rest, nil
}
