package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/tests/peers"
)

// The load and the requests of all peers: what all of them can express.
const (
	connections = 50
	depth       = 16
	keys        = 100_000
	limit       = 100
)

// patience is how long a peer may take to say something about a store that has stopped.
var patience = 20 * time.Second

// keyCounts are how many keys a peer's memory is measured with, and how few of them admit
// their whole limit. Redis's tables of keys, whose sizes are powers of two, must not grow
// while that is measured.
type keyCounts struct{ many, few int }

var (
	libraryKeys = keyCounts{1<<14 - 1<<11, 1 << 9}
	serverKeys  = keyCounts{1<<18 - 1<<12, 1 << 10} // a server's resident memory has coarse steps
)

// row is what is known of a peer.
type row struct {
	name   string
	single sample  // each client waits for an answer before it asks again
	deep   sample  // each client sends several requests together
	first  float64 // memory for a key with one admission, in bytes
	full   float64 // memory for a key that has admitted its limit, in bytes
	worst  float64 // the most admitted in a window, in limits
	hangs  stopped // when the store does not answer
	gone   stopped // when the store refuses connections
}

// sample is the report of the round whose rate is the median.
type sample struct {
	peers.Report
	rate float64 // decisions a second; 0: not measured
}

// each is CPU time for each decision, in microseconds.
func (s sample) each(cpu time.Duration) float64 {
	return float64(cpu.Nanoseconds()) / 1e3 / float64(s.Decisions)
}

// all is the CPU time of all processes for each decision, in microseconds.
func (s sample) all() float64 { return s.each(s.Store + s.Server + s.Client) }

// stopped is what a peer answers when its store has stopped.
type stopped struct {
	known  bool // whether there is a store that can stop
	answer string
	first  time.Duration // until the answer to the first request
	second time.Duration // until the answer to the next
}

func measure(ctx context.Context, rows []*row, long time.Duration, rounds int) error {
	single, deep := map[*row][]sample{}, map[*row][]sample{}
	for n := range rounds {
		for _, r := range rows {
			say("round %d: %s", n+1, r.name)
			err := with(ctx, r.name, func(p *peers.Peer, redis *peers.Redis) error {
				for _, d := range []int{1, depth} {
					if d > 1 && !p.Pipelines() {
						continue
					}
					if err := redis.Flush(); err != nil {
						return err
					}
					report, err := p.Load(ctx, peers.Load{Connections: connections, Depth: d, Keys: keys, Limit: limit, Window: time.Minute, For: long})
					if err != nil {
						return err
					}
					if report.Errors > 0 {
						return fmt.Errorf("%s: %d of %d requests got no decision", r.name, report.Errors, report.Decisions)
					}
					s := sample{report, float64(report.Decisions) / report.Seconds}
					if d == 1 {
						single[r] = append(single[r], s)
					} else {
						deep[r] = append(deep[r], s)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, r := range rows {
		r.single, r.deep = median(single[r]), median(deep[r])
		say("memory and windows: %s", r.name)
		if err := with(ctx, r.name, r.memory); err != nil {
			return err
		}
		if err := with(ctx, r.name, r.windows); err != nil {
			return err
		}
	}
	say("stores that stop")
	return stops(ctx, rows)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func median(samples []sample) sample {
	if len(samples) == 0 {
		return sample{}
	}
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.rate, b.rate) })
	return samples[len(samples)/2]
}

// with runs a peer on a Redis or Valkey of its own.
func with(ctx context.Context, name string, do func(p *peers.Peer, redis *peers.Redis) error) error {
	redis, err := peers.StartRedis(ctx, name)
	if err != nil {
		return err
	}
	defer redis.Stop()
	p, err := peers.Start(ctx, name, redis.Addr)
	if err != nil {
		return err
	}
	defer p.Stop()
	return do(p, redis)
}

// memory measures what a key takes with one admission, and what a few of them take more
// once they have admitted their limit, at different milliseconds.
func (r *row) memory(p *peers.Peer, _ *peers.Redis) error {
	many, few := libraryKeys.many, libraryKeys.few
	if p.Pipelines() {
		many, few = serverKeys.many, serverKeys.few
	}
	ask := func(from, to int) error {
		for ; from < to; from += few {
			requests := make([]peers.Request, few)
			for i := range requests {
				requests[i] = request(fmt.Sprintf("key:%012d", from+i), time.Hour)
			}
			if _, err := admitted(p, requests...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := ask(many, many+few); err != nil { // what is allocated once
		return err
	}
	empty, err := steady(p)
	if err != nil {
		return err
	}
	if err := ask(0, many); err != nil {
		return err
	}
	filled, err := steady(p)
	if err != nil {
		return err
	}
	for range limit - 1 {
		if err := ask(0, few); err != nil {
			return err
		}
	}
	grown, err := steady(p)
	r.first = float64(filled-empty) / float64(many)
	r.full = r.first + max(0, float64(grown-filled)/float64(few))
	return err
}

// steady returns the memory that a peer takes once it no longer changes: a store may still be moving its
// keys to a larger table, and frees the smaller one afterwards.
func steady(p *peers.Peer) (int64, error) {
	last, err := p.Memory()
	for range 40 {
		time.Sleep(250 * time.Millisecond)
		var now int64
		if now, err = p.Memory(); err != nil || now == last {
			break
		}
		last = now
	}
	return last, err
}

func request(key string, window time.Duration) peers.Request {
	return peers.Request{Key: key, Limit: limit, Window: window, Cost: 1}
}

// admitted asks, and returns an error if there is a request without a decision.
func admitted(p *peers.Peer, requests ...peers.Request) ([]peers.Answer, error) {
	answers, err := p.Ask(requests...)
	for _, a := range answers {
		if a.Err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, a.Err)
		}
	}
	return answers, err
}

// windows is greedy around the edges of windows of a second: it asks without a pause from
// shortly before an edge until a window after it. The first key meets an edge of the
// clock; the second one an edge that its own first request set.
func (r *row) windows(p *peers.Peer, _ *peers.Redis) error {
	const window, before = time.Second, 150 * time.Millisecond
	greedy := func(key string, from time.Time) error {
		var answers []peers.Answer
		time.Sleep(time.Until(from))
		for time.Since(from) < before+window+window/10 {
			a, err := admitted(p, request(key, window))
			if err != nil {
				return err
			}
			answers = append(answers, a...)
		}
		r.worst = max(r.worst, float64(peers.Worst(answers, 1, window))/limit)
		return nil
	}
	if _, err := admitted(p, request("warm", window)); err != nil {
		return err
	}
	if err := greedy("clock", time.Now().Truncate(window).Add(2*window-before)); err != nil {
		return err
	}
	opened, err := admitted(p, request("own", window))
	if err != nil {
		return err
	}
	return greedy("own", opened[0].Received.Add(window-before))
}

// stops tries, for all peers at once, what happens when the store stops: most of it is
// waiting.
func stops(ctx context.Context, rows []*row) error {
	var wg sync.WaitGroup
	failed := make([]error, 2*len(rows))
	for i, r := range rows {
		wg.Go(func() { failed[2*i] = with(ctx, r.name, r.hangs.try((*peers.Redis).Hang)) })
		wg.Go(func() { failed[2*i+1] = with(ctx, r.name, r.gone.try((*peers.Redis).Kill)) })
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stopped) try(stop func(*peers.Redis) error) func(*peers.Peer, *peers.Redis) error {
	return func(p *peers.Peer, redis *peers.Redis) error {
		if !p.HasStore() {
			return nil
		}
		if _, err := admitted(p, request("key", time.Minute)); err != nil {
			return err
		}
		if err := stop(redis); err != nil {
			return err
		}
		s.known = true
		for i, took := range []*time.Duration{&s.first, &s.second} {
			began, answered := time.Now(), make(chan string, 1)
			go func() { // ends when the peer answers, or is stopped
				a, err := p.Ask(request("key", time.Minute))
				answered <- describe(a, err)
			}()
			select {
			case answer := <-answered:
				*took = time.Since(began)
				if i == 0 {
					s.answer = answer
				}
			case <-time.After(patience):
				*took = patience
				if i == 0 {
					s.answer = "nothing"
				}
				return nil
			}
		}
		return nil
	}
}

func describe(answers []peers.Answer, err error) string {
	switch {
	case err != nil:
		return "error"
	case answers[0].Fallback && answers[0].Allowed:
		return "admits, by its FAIL policy"
	case answers[0].Fallback:
		return "denies, by its FAIL policy"
	case answers[0].Err != nil:
		return "error"
	case answers[0].Allowed:
		return "admits"
	}
	return "denies"
}
