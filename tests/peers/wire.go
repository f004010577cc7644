package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// dialect is how a server is asked by RESP.
type dialect interface {
	// command returns the words that ask a question, or says why they cannot.
	command(q Question) ([]string, error)
	// answer reads the integers of a reply.
	answer(reply []int64) (Answer, error)
}

// preparer is a dialect that needs a command before the first question.
type preparer interface{ prepare() []string }

// wire is a connection to a server that speaks RESP.
type wire struct {
	dialect
	net.Conn
	r *bufio.Reader
}

func dialWire(ctx context.Context, address string, d dialect) (*wire, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	w := &wire{d, c, bufio.NewReader(c)}
	if p, ok := d.(preparer); ok {
		if _, err = w.do(p.prepare()...); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *wire) close() { _ = w.Close() } // all replies are read, or the peer has failed

func (w *wire) ask(questions []Question) ([]Answer, error) {
	answers := make([]Answer, len(questions))
	var text []byte
	for i, q := range questions {
		words, err := w.command(q)
		if answers[i].Err = err; err == nil {
			text = appendCommand(text, words)
		}
	}
	sent := time.Now()
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	for i := range answers {
		a := &answers[i]
		if a.Err == nil {
			reply, err := readReply(w.r)
			var refused replyError
			switch numbers, ok := reply.([]int64); {
			case errors.As(err, &refused):
				a.Err = refused
			case err != nil:
				return nil, err
			case !ok:
				return nil, fmt.Errorf("not a decision: %v", reply)
			default:
				if *a, err = w.answer(numbers); err != nil {
					return nil, err
				}
			}
		}
		a.Sent, a.Received = sent, time.Now()
	}
	return answers, nil
}

// do sends one command and returns its reply.
func (w *wire) do(words ...string) (any, error) {
	if _, err := w.Write(appendCommand(nil, words)); err != nil {
		return nil, err
	}
	return readReply(w.r)
}

func appendCommand(b []byte, words []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, word := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

// readReply reads a string, an integer or an array of integers.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("not a reply: %q", line)
	}
	mark, rest := line[0], line[1:len(line)-2]
	switch mark {
	case '+':
		return rest, nil
	case '-':
		return nil, replyError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch mark {
	case ':':
		return n, nil
	case '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return string(text[:n]), err
	case '*':
		numbers := make([]int64, n)
		for i := range numbers {
			reply, err := readReply(r)
			if err != nil {
				return nil, err
			}
			number, ok := reply.(int64)
			if !ok {
				return nil, fmt.Errorf("not an integer: %v", reply)
			}
			numbers[i] = number
		}
		return numbers, nil
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}
