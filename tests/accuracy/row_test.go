package accuracy

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// rule is a limit that a request asks for: limit units in window ms.
type rule struct{ limit, window int64 }

// answer is a limiter's answer to one request.
type answer struct {
	ok    bool
	retry int64 // ms to wait, of a denial; silent: the limiter does not say
}

const silent = -1

// row is one limiter: an rlproxy command, or a script or commands that clients send to Redis.
type row struct {
	name    string
	about   string // a few words for the page
	command bool   // rlproxy's, not Redis's
	script  string // a file of tests/testbed/scripts, whose digest stands before the words
	words   func(key string, q rule) []any
	read    func(reply any) (answer, error) // nil: see increments

	exact   bool    // an exact log: nothing too much, and no denial too many
	strict  bool    // nothing too much
	buckets int64   // of a counter; else 0
	ids     bool    // knows ONCE
	timely  bool    // waiting as long as the answer says is exact
	most    float64 // what the search must exceed, so that it is seen to find something
}

// rows returns what the table has, in its order.
func rows() []*row {
	return []*row{
		{name: "RL.SLIDE", about: "exact log", command: true, words: limits("RL.SLIDE"), read: fiveIntegers, exact: true, timely: true, ids: true},
		counter(1, false, 1.5),
		counter(10, false, 1.01),
		counter(1, true, 0),
		counter(10, true, 0),
		{name: "RL.FIXED", about: "fixed window", command: true, words: limits("RL.FIXED"), read: fiveIntegers, timely: true, ids: true, most: 1.9},
		{name: "CL.THROTTLE", about: "GCRA, as redis-cell", command: true, words: throttle, read: cell, most: 1.5},
		{name: "script: sorted set", about: "a member per admission", script: "log.lua", words: evalsha, read: pair},
		{name: "script: two counters", about: "the classic weighted pair", script: "counter.lua", words: evalsha, read: pair, most: 1.5},
		{name: "INCR and PEXPIRE", about: "two commands, no script", words: incr, most: 1.9},
	}
}

// counter returns RL.COUNTER with the given number of sub-windows.
func counter(buckets int64, strict bool, most float64) *row {
	r := &row{name: "RL.COUNTER", about: "weighted sub-windows", command: true, read: fiveIntegers, buckets: buckets, strict: strict, timely: true, ids: true, most: most}
	var options []any
	if buckets > 1 {
		r.name += fmt.Sprintf(" BUCKETS %d", buckets)
		options = append(options, "BUCKETS", buckets)
	}
	if strict {
		r.name += " STRICT"
		r.about = "the oldest sub-window counts in full"
		options = append(options, "STRICT")
	}
	r.words = limits("RL.COUNTER", options...)
	return r
}

func limits(command string, options ...any) func(string, rule) []any {
	return func(key string, q rule) []any {
		return append([]any{command, key, q.limit, fmt.Sprintf("%dms", q.window)}, options...)
	}
}

// throttle asks for a rate of limit per window, with a burst of the same size.
func throttle(key string, q rule) []any {
	return []any{"CL.THROTTLE", key, q.limit - 1, q.limit, q.window / 1000}
}

func evalsha(key string, q rule) []any { return []any{1, key, q.limit, q.window} }

func incr(key string, _ rule) []any { return []any{"INCR", key} }

func fiveIntegers(reply any) (answer, error) {
	d, err := proxytest.ToDecision(reply)
	return answer{d[0] == 1, d[3]}, err
}

// cell reads a reply of CL.THROTTLE, in whole seconds.
func cell(reply any) (answer, error) {
	d, err := proxytest.ToDecision(reply)
	return answer{d[0] == 0, d[3] * 1000}, err
}

// pair reads a script's reply: admitted, remaining.
func pair(reply any) (answer, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 2 {
		return answer{}, fmt.Errorf("not a script's reply: %v", reply)
	}
	return answer{items[0] == int64(1), silent}, nil
}

// caller asks one row's limiter over one connection.
type caller struct {
	*row
	conn *proxytest.Conn
	sha  string // of the script
}

// dial connects to the row's rlproxy or Redis.
func (r *row) dial(t testing.TB, addr string) *caller {
	t.Helper()
	c, err := r.connect(t, addr)
	require.NoError(t, err)
	return c
}

// connect is dial for an address at which there may be nothing.
func (r *row) connect(t testing.TB, addr string) (*caller, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &caller{row: r, conn: proxytest.NewConn(conn)}
	if r.script != "" {
		text, err := os.ReadFile("../testbed/scripts/" + r.script)
		if err != nil {
			return nil, err
		}
		digest := sha1.Sum(text)
		c.sha = hex.EncodeToString(digest[:])
		if _, err := c.conn.Exchange([]any{"SCRIPT", "LOAD", string(text)}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// request returns the words of one request.
func (c *caller) request(key string, q rule, more ...any) []any {
	words := append(c.words(key, q), more...)
	if c.script != "" {
		words = append([]any{"EVALSHA", c.sha}, words...)
	}
	return words
}

// ask sends n equal requests at once. More words are options of the command.
func (c *caller) ask(key string, q rule, n int, more ...any) ([]answer, error) {
	requests := make([][]any, n)
	for i := range requests {
		requests[i] = c.request(key, q, more...)
	}
	replies, err := c.conn.Exchange(requests...)
	if err != nil {
		return nil, err
	}
	if c.read == nil {
		return c.increments(key, q, replies)
	}
	answers := make([]answer, n)
	for i, reply := range replies {
		if answers[i], err = c.read(reply); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// increments reads replies of INCR. The first one of a key sets its time to live.
func (c *caller) increments(key string, q rule, replies []any) (answers []answer, err error) {
	for _, reply := range replies {
		count, ok := reply.(int64)
		if !ok {
			return nil, fmt.Errorf("not a count: %v", reply)
		}
		if count == 1 {
			if _, err := c.conn.Exchange([]any{"PEXPIRE", key, q.window}); err != nil {
				return nil, err
			}
		}
		answers = append(answers, answer{count <= q.limit, silent})
	}
	return answers, nil
}
