package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// conn is a connection that sends and reads RESP as it is on the wire.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// What the wire can say beside int64, string (a bulk) and []any. A RESP3 map is a
// []any of keys and values in turn, a null is nil.
type (
	status   string // a simple string
	errReply string // an error
)

// dial connects; the connection is closed when the test ends.
func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &conn{c, bufio.NewReader(c)}
}

// appendCommand appends a command to a pipeline. Words are strings or integers.
func appendCommand(b []byte, words ...any) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, w := range words {
		s := fmt.Sprint(w)
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(s), s)
	}
	return b
}

// do sends one command and returns its reply.
func (c *conn) do(t *testing.T, words ...any) any {
	t.Helper()
	return c.pipeline(t, words)[0]
}

// pipeline sends commands in one write and returns their replies.
func (c *conn) pipeline(t *testing.T, commands ...[]any) []any {
	t.Helper()
	replies, err := c.exchange(commands...)
	require.NoError(t, err)
	return replies
}

// exchange is pipeline for goroutines that must not end a test.
func (c *conn) exchange(commands ...[]any) ([]any, error) {
	var b []byte
	for _, words := range commands {
		b = appendCommand(b, words...)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range replies {
		var err error
		if replies[i], err = c.read(); err != nil {
			return replies[:i], err
		}
	}
	return replies, nil
}

// read reads one reply.
func (c *conn) read() (any, error) {
	l, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := l[0], strings.TrimSuffix(l[1:], "\r\n")
	switch kind {
	case '+':
		return status(rest), nil
	case '-':
		return errReply(rest), nil
	case '_':
		return nil, nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch kind {
	case ':':
		return n, nil
	case '$':
		if n < 0 {
			return nil, nil
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(c.r, b)
		return string(b[:n]), err
	case '*', '%', '>':
		if kind == '%' {
			n *= 2
		}
		if n < 0 {
			return nil, nil
		}
		items := make([]any, n)
		for i := range items {
			if items[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("no reply begins with %q", l)
}

// decision is the five integers of a rate-limit reply.
type decision struct {
	allowed, limit, remaining, retryAfter, resetAfter int64
}

// toDecision reads a reply as one.
func toDecision(reply any) (decision, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 5 {
		return decision{}, fmt.Errorf("not a decision: %v", reply)
	}
	var f [5]int64
	for i := range f {
		if f[i], ok = items[i].(int64); !ok {
			return decision{}, fmt.Errorf("not a decision: %v", reply)
		}
	}
	return decision{f[0], f[1], f[2], f[3], f[4]}, nil
}

// decide sends a command line and returns its decision.
func (c *conn) decide(t *testing.T, line string) decision {
	t.Helper()
	d, err := toDecision(c.do(t, words(line)...))
	require.NoError(t, err, line)
	return d
}
