package proxytest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is a connection that sends commands and parses replies, without interpreting them.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// The types of replies that have no Go type of their own. The others are int64, string for a bulk string, []any for an
// array, []any of alternating keys and values for a RESP3 map, and nil for a null.
type (
	// Status is a simple string.
	Status string

	// ErrReply is the text of an error.
	ErrReply string
)

// NewConn returns a Conn on a network connection.
func NewConn(nc net.Conn) *Conn { return &Conn{nc, bufio.NewReader(nc)} }

// AppendCommand appends a command in RESP. Words are strings or integers.
func AppendCommand(b []byte, words ...any) []byte {
	b = appendHeader(b, '*', len(words))
	for _, w := range words {
		s, ok := w.(string)
		if !ok {
			s = fmt.Sprint(w)
		}
		b = append(appendHeader(b, '$', len(s)), s...)
		b = append(b, "\r\n"...)
	}
	return b
}

// appendHeader appends the line of a type and a length.
func appendHeader(b []byte, kind byte, length int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(length), 10), "\r\n"...)
}

// Exchange sends commands in one write and returns their replies. If there is an error, it returns
// the replies read before it.
func (c *Conn) Exchange(commands ...[]any) ([]any, error) {
	var b []byte
	for _, words := range commands {
		b = AppendCommand(b, words...)
	}
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range replies {
		var err error
		if replies[i], err = c.ReadReply(); err != nil {
			return replies[:i], err
		}
	}
	return replies, nil
}

// ReadReply reads one reply.
func (c *Conn) ReadReply() (any, error) {
	l, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := l[0], strings.TrimSuffix(l[1:], "\r\n")
	switch kind {
	case '+':
		return Status(rest), nil
	case '-':
		return ErrReply(rest), nil
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
			if items[i], err = c.ReadReply(); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("unknown reply type: %q", l)
}

// Decision is the five integers of a rate-limit reply: allowed, limit, remaining, retry after, reset after.
type Decision [5]int64

// ToDecision converts a reply to a Decision.
func ToDecision(reply any) (d Decision, err error) {
	items, ok := reply.([]any)
	if !ok || len(items) != len(d) {
		return d, fmt.Errorf("not a decision: %v", reply)
	}
	for i := range d {
		if d[i], ok = items[i].(int64); !ok {
			return d, fmt.Errorf("not a decision: %v", reply)
		}
	}
	return d, nil
}
