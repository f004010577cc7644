package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Conn is a connection to a server.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects to a server, host:port.
func Dial(server string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", server, time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReaderSize(c, 64<<10)}, nil
}

// ReplyError is an error reply.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Reply reads one reply of RESP2: a string, or an array's elements with spaces between them.
func (c *Conn) Reply() (string, error) { return readReply(c.r) }

// Ask sends one command over a connection of its own and returns the reply, as Reply does.
func Ask(server string, args ...string) (string, error) {
	c, err := Dial(server)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // nothing is left to say
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	return c.Do(args...)
}

// Do sends one command and returns the reply, as Reply does.
func (c *Conn) Do(args ...string) (string, error) {
	if _, err := c.Write(Encode(nil, args, 0)); err != nil {
		return "", err
	}
	reply, err := c.Reply()
	if err != nil {
		return "", fmt.Errorf("%s: %w", args[0], err)
	}
	return reply, nil
}

// Variable is what redis-benchmark replaces by a random number of 12 digits.
const Variable = "__rand_int__"

// Encode appends a command, with n in the place of Variable.
func Encode(dst []byte, args []string, n int) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		if head, tail, ok := strings.Cut(a, Variable); ok {
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
		return "", ReplyError(line)
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

// template is an encoded command in which the digits of a key's number can be replaced.
type template struct {
	encoded []byte
	last    int // index of the last of the 12 digits; -1: the command has no number
}

func newTemplate(words []string) template {
	t := template{Encode(nil, words, 0), -1}
	for i, b := range Encode(nil, words, 1) {
		if b != t.encoded[i] {
			t.last = i
		}
	}
	return t
}

// append appends the command with the number n.
func (t template) append(dst []byte, n int) []byte {
	end := len(dst) + t.last
	dst = append(dst, t.encoded...)
	for ; t.last >= 0 && n > 0; n /= 10 {
		dst[end] = byte('0' + n%10)
		end--
	}
	return dst
}

// errUnavailable is the reply with which rlproxy says that a node does not answer.
var errUnavailable = errors.New("UNAVAILABLE")

// said is what a decision says.
type said struct {
	denied bool // the first integer is 0
	byFail bool // a FAIL policy answered: the third integer, the remaining units, is -1
}

// skipReply reads a decision: an integer, or an array of integers.
func skipReply(r *bufio.Reader) (s said, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return s, err
	}
	if line[0] == ':' {
		return said{denied: line[1] == '0'}, nil
	}
	if bytes.HasPrefix(line, []byte("-UNAVAILABLE ")) {
		return s, fmt.Errorf("not a decision: %q: %w", line, errUnavailable)
	}
	n, err := strconv.Atoi(string(bytes.TrimSuffix(line[1:], []byte("\r\n"))))
	if line[0] != '*' || err != nil {
		return s, fmt.Errorf("not a decision: %q", line)
	}
	for i := range n {
		if line, err = r.ReadSlice('\n'); err != nil {
			return s, err
		}
		if line[0] != ':' {
			return s, fmt.Errorf("not a decision: %q", line)
		}
		switch i {
		case 0:
			s.denied = line[1] == '0'
		case 2:
			s.byFail = line[1] == '-'
		}
	}
	return s, nil
}

func hangUp(conns []*Conn) {
	for _, c := range conns {
		_ = c.Close() // nothing is left to say
	}
}

// each calls f for 0 to n-1, all at the same time, and returns what failed.
func each(n int, f func(i int) error) error {
	failed := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { failed[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(failed...)
}
