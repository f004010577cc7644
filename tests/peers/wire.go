package peers

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// dialect is how a server is asked by RESP.
type dialect interface {
	// command returns the words of a request, or says why they cannot.
	command(q Request) ([]string, error)
	// answer reads the integers of a reply.
	answer(reply []int64) (Answer, error)
}

// preparer is a dialect that needs a command before the first request.
type preparer interface{ prepare() []string }

// wire is a connection to a server that speaks RESP.
type wire struct {
	dialect
	*traffic.Conn
}

func dialWire(address string, d dialect) (*wire, error) {
	c, err := traffic.Dial(address)
	if err != nil {
		return nil, err
	}
	w := &wire{d, c}
	if p, ok := d.(preparer); ok {
		if _, err = w.Do(p.prepare()...); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *wire) close() { _ = w.Close() } // all replies are read, or the peer has failed

func (w *wire) ask(requests []Request) ([]Answer, error) {
	answers := make([]Answer, len(requests))
	var text []byte
	for i, q := range requests {
		words, err := w.command(q)
		if answers[i].Err = err; err == nil {
			text = traffic.Encode(text, words, 0)
		}
	}
	sent := time.Now()
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	for i := range answers {
		a := &answers[i]
		if a.Err == nil {
			reply, err := w.Reply()
			var refused traffic.ReplyError
			if errors.As(err, &refused) {
				a.Err = refused
			} else if err != nil {
				return nil, err
			} else if *a, err = w.read(reply); err != nil {
				return nil, err
			}
		}
		a.Sent, a.Received = sent, time.Now()
	}
	return answers, nil
}

// read reads a decision: integers with spaces between them.
func (w *wire) read(reply string) (Answer, error) {
	var numbers []int64
	for field := range strings.FieldsSeq(reply) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Answer{}, fmt.Errorf("not a decision: %q", reply)
		}
		numbers = append(numbers, n)
	}
	return w.answer(numbers)
}
