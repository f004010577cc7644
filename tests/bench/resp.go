package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// conn is a connection that asks one question at a time, or fills.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(port int) (*conn, error) {
	c, err := net.DialTimeout("tcp", address(port), time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 64<<10)}, nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ask sends one command on a connection of its own and returns the reply: a
// string, or an array's elements with spaces between them.
func ask(port int, args ...string) (string, error) {
	c, err := dial(port)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // nothing is left to say
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := c.Write(encode(nil, args, 0)); err != nil {
		return "", err
	}
	reply, err := readReply(c.r)
	if err != nil {
		return "", fmt.Errorf("%s: %w", args[0], err)
	}
	return reply, nil
}

// variable is what redis-benchmark replaces by a random number of 12 digits.
const variable = "__rand_int__"

// encode appends a command, with n in the place of the variable.
func encode(dst []byte, args []string, n int) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		if head, tail, ok := strings.Cut(a, variable); ok {
			dst = fmt.Appendf(dst, "$%d\r\n%s%012d%s\r\n", len(a), head, n, tail)
		} else {
			dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	return dst
}

// readReply reads one reply of RESP2.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("an empty reply")
	}
	kind, line := line[0], line[1:]
	switch kind {
	case '+', ':':
		return line, nil
	case '-':
		return "", errors.New(line)
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		return "", fmt.Errorf("a reply that is none: %c%s", kind, line)
	}
	if kind == '$' {
		if n < 0 {
			return "", nil
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	}
	var all []string
	for range n {
		one, err := readReply(r)
		if err != nil {
			return "", err
		}
		all = append(all, one)
	}
	return strings.Join(all, " "), nil
}
