package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// adapter is the program of a library. Called with the word ask, it reads lines of key,
// limit, window in ms and cost, and answers each, in order, by a line "1" or "0" with
// the time to wait in ms, -1 if the library does not say, or by "error" and a text.
type adapter struct {
	p     *process
	lines *bufio.Scanner
}

func startAdapter(ctx context.Context, argv, environment []string) (*adapter, error) {
	p, err := launch(ctx, slices.Concat(argv, []string{"ask"}), environment, true)
	if err != nil {
		return nil, err
	}
	return &adapter{p, bufio.NewScanner(p.out)}, nil
}

func (a *adapter) ask(requests []Request) ([]Answer, error) {
	var text []byte
	for _, q := range requests {
		if q.Key == "" || strings.ContainsAny(q.Key, " \n\r") {
			return nil, fmt.Errorf("an adapter cannot read the key %q", q.Key)
		}
		text = fmt.Appendf(text, "%s %d %d %d\n", q.Key, q.Limit, q.Window.Milliseconds(), q.Cost)
	}
	wrote, sent := make(chan error, 1), time.Now()
	go func() { // ends when the program has read everything or ended
		_, err := a.p.in.Write(text)
		wrote <- err
	}()
	answers := make([]Answer, len(requests))
	for i := range answers {
		if !a.lines.Scan() {
			return nil, errors.Join(errors.New("the adapter ended: "+a.p.text.String()), a.lines.Err())
		}
		var err error
		if answers[i], err = readAnswer(a.lines.Text()); err != nil {
			return nil, err
		}
		answers[i].Sent, answers[i].Received = sent, time.Now()
	}
	return answers, <-wrote
}

func readAnswer(line string) (a Answer, err error) {
	first, rest, _ := strings.Cut(line, " ")
	if first == "error" {
		a.Err = errors.New(rest)
		return a, nil
	}
	ms, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || (first != "0" && first != "1") {
		return a, fmt.Errorf("the adapter wrote %q", line)
	}
	a.Allowed, a.RetryAfter = first == "1", time.Duration(ms)*time.Millisecond
	return a, nil
}

func (a *adapter) close() { a.p.stop() }
