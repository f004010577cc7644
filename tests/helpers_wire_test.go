package tests

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// conn is a connection that sends and reads plain RESP.
type conn struct{ *proxytest.Conn }

type (
	status   = proxytest.Status
	errReply = proxytest.ErrReply
)

// dial connects to a proxy; the connection is closed when the test ends.
func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := connect(addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect is dial for goroutines: it does not fail the test, and the caller closes the
// connection.
func connect(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{proxytest.NewConn(c)}, nil
}

// appendCommand appends a command to a pipeline. The words are strings or integers.
func appendCommand(b []byte, words ...any) []byte { return proxytest.AppendCommand(b, words...) }

// do sends one command and returns its reply.
func (c *conn) do(t *testing.T, words ...any) any {
	t.Helper()
	return c.pipeline(t, words)[0]
}

// pipeline sends commands in one write and returns their replies.
func (c *conn) pipeline(t *testing.T, commands ...[]any) []any {
	t.Helper()
	replies, err := c.Exchange(commands...)
	require.NoError(t, err)
	return replies
}

// decision has the five integers of a rate-limit reply.
type decision struct {
	allowed, limit, remaining, retryAfter, resetAfter int64
}

// toDecision reads a reply as a decision.
func toDecision(reply any) (decision, error) {
	d, err := proxytest.ToDecision(reply)
	return decision{d[0], d[1], d[2], d[3], d[4]}, err
}

// decide sends a command line and returns its decision.
func (c *conn) decide(t *testing.T, line string) decision {
	t.Helper()
	d, err := toDecision(c.do(t, words(line)...))
	require.NoError(t, err, line)
	return d
}
