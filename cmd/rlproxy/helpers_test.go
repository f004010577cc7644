package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
)

// startInside serves a configuration in this process and returns its address.
func startInside(f *testing.F, content string) (*live, string) {
	f.Helper()
	path := filepath.Join(f.TempDir(), "test.conf")
	require.NoError(f, os.WriteFile(path, []byte(content), 0o600))
	c, err := config.Load([]string{path}, nil, 64*mb)
	require.NoError(f, err)
	ready, err := prepare(c)
	require.NoError(f, err)
	quiet := slog.New(slog.DiscardHandler)
	eng, err := openEngines(c, quiet)
	require.NoError(f, err)
	require.NoError(f, eng.keepPolicies(c, quiet))
	now := &live{}
	server := newServer(c, now, ready, eng, quiet)
	newWeb(c, now, ready, eng, quiet)
	now.apply(c, ready)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // until the clean-up
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(f, server.Shutdown(ctx))
		require.NoError(f, <-ended)
		require.NoError(f, eng.close())
		require.Zero(f, server.Stats().Panics.Load())
		require.Zero(f, eng.memory.Reserved())
	})
	return now, l.Addr().String()
}

// converse sends input, size bytes at a time unless size is 0, and returns
// everything that comes back until the server closes.
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
	require.NoError(t, err, "the connection was reset or timed out after %q", got)
	return got
}

// wholeReplies returns an error unless b is a sequence of complete replies in which
// nothing follows a protocol error.
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
	if !ok || len(line) == 0 || depth > 16 {
		return nil, fmt.Errorf("not a reply: %q", b)
	}
	if bytes.ContainsAny(line, "\r\n") {
		return nil, fmt.Errorf("line end inside a line: %q", line)
	}
	switch line[0] {
	case '+', '-':
		return rest, nil
	case '_', '#', ',':
		return rest, nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return nil, fmt.Errorf("not an integer: %q", line)
	}
	switch line[0] {
	case ':':
		return rest, nil
	case '$', '=':
		if n < 0 {
			return rest, nil
		}
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return nil, fmt.Errorf("bulk string is not %d bytes long: %q", n, rest)
		}
		return rest[n+2:], nil
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, fmt.Errorf("unknown reply type: %q", line)
	}
	for range n {
		if rest, err = skipReply(rest, depth+1); err != nil {
			return nil, err
		}
	}
	return rest, nil
}
