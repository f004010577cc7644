package tests

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load describes what many clients of several proxies do at once: each sends one
// pipeline after another, as fast as it is answered.
type load struct {
	proxies  []*proxy
	clients  int // number of clients of each proxy
	depth    int // largest number of commands in a pipeline
	keys     int
	duration time.Duration
	command  func(key int) []any // returns the command without COST
	limit    int64
	window   time.Duration
	maxCost  int64
}

// run applies the load and returns the history of each key.
func (l *load) run(t *testing.T) []history {
	t.Helper()
	histories := make([]history, l.keys)
	for i := range histories {
		histories[i] = history{limit: l.limit, window: l.window}
	}
	var mu sync.Mutex // guards histories and failure
	var failure error
	var wg sync.WaitGroup
	until := time.Now().Add(l.duration)
	for i, p := range l.proxies {
		for j := range l.clients {
			c := dial(t, p.addr)
			wg.Add(1)
			go func() { // ends when the duration has passed
				defer wg.Done()
				answers, err := l.client(c, rand.New(rand.NewPCG(uint64(i), uint64(j))), until)
				mu.Lock()
				defer mu.Unlock()
				for key, a := range answers {
					histories[key].answers = append(histories[key].answers, a...)
				}
				if err != nil && failure == nil {
					failure = err
				}
			}()
		}
	}
	wg.Wait()
	require.NoError(t, failure)
	return histories
}

// client sends one pipeline after another and returns its answers by key.
func (l *load) client(c *conn, rng *rand.Rand, until time.Time) (map[int][]answer, error) {
	answers := make(map[int][]answer)
	for time.Now().Before(until) {
		pipeline := make([][]any, 1+rng.IntN(l.depth))
		keys, costs := make([]int, len(pipeline)), make([]int64, len(pipeline))
		for i := range pipeline {
			keys[i], costs[i] = rng.IntN(l.keys), 1+rng.Int64N(l.maxCost)
			pipeline[i] = append(l.command(keys[i]), "COST", costs[i])
		}
		sent := time.Now()
		replies, err := c.Exchange(pipeline...)
		if err != nil {
			return answers, err
		}
		read := time.Now()
		for i, reply := range replies {
			d, err := toDecision(reply)
			if err != nil {
				return answers, err
			}
			answers[keys[i]] = append(answers[keys[i]], answer{sent, read, costs[i], d})
		}
	}
	return answers, nil
}
