package accuracy

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/tests/peers"
	"github.com/stretchr/testify/require"
)

// processes is how many clients of a peer ask at once.
const processes = 8

// aDayLong is a question that peers know, too. Most have no longer window.
var aDayLong = question{limit: 100, window: 24 * 3600 * 1000}

// others measures the limiters of package peers that are not rows already.
func others(t *testing.T) []other {
	var out []*other
	t.Run("peers", func(t *testing.T) {
		for _, name := range peers.Names() {
			if strings.HasPrefix(name, "rlproxy") || name == "sorted-set script" {
				continue
			}
			g := &other{name: name}
			out = append(out, g)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g.measure(t)
				t.Logf("%+v", *g)
			})
		}
	})
	all := make([]other, len(out))
	for i, g := range out {
		all[i] = *g
	}
	return all
}

// measure finds the figures, or why there are none.
func (g *other) measure(t testing.TB) {
	t.Helper()
	redis := redistest.Start(t)
	p, err := peers.Start(t.Context(), g.name, redis.Addr)
	if err != nil {
		g.wrong = reason(err)
		return
	}
	t.Cleanup(p.Stop)
	ask := asker(p)
	if _, err := ask("first", aDayLong, 1); err != nil {
		g.wrong = reason(err)
		return
	}
	g.alone = redis.Do("DBSIZE") == "0"
	g.seen = realClock(ask).live(t)
	g.Raised, g.Lowered = changed(aDayLong, func(key string, q question, n int) int64 {
		answers, err := ask(key, q, n)
		require.NoError(t, err)
		return count(answers)
	})
	if !g.alone {
		g.Crowd = g.crowd(t, redis.Addr)
	}
}

// reason returns the beginning of an error, for a cell of a table.
func reason(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.ReplaceAll(line[:min(len(line), 120)], "|", "/")
}

// asker returns a function that asks a peer.
func asker(p *peers.Peer) func(key string, q question, n int) ([]answer, error) {
	return func(key string, q question, n int) ([]answer, error) {
		questions := make([]peers.Question, n)
		for i := range questions {
			questions[i] = peers.Question{Key: key, Limit: q.limit, Window: time.Duration(q.window) * time.Millisecond, Cost: 1}
		}
		replies, err := p.Ask(questions...)
		if err != nil {
			return nil, err
		}
		answers := make([]answer, n)
		for i, r := range replies {
			if r.Err != nil {
				return nil, r.Err
			}
			answers[i] = answer{r.Allowed, silent}
			if r.RetryAfter >= 0 {
				answers[i].retry = r.RetryAfter.Milliseconds()
			}
		}
		return answers, nil
	}
}

// crowd asks by several processes at once, ten times the limit in all.
func (g *other) crowd(t testing.TB, redis string) float64 {
	t.Helper()
	var admitted int64
	var mu sync.Mutex
	var done sync.WaitGroup
	begin := make(chan struct{})
	for range processes {
		p, err := peers.Start(t.Context(), g.name, redis)
		require.NoError(t, err)
		t.Cleanup(p.Stop)
		ask := asker(p)
		_, err = ask("first", aDayLong, 1)
		require.NoError(t, err)
		done.Go(func() {
			<-begin
			answers, err := ask("crowd", aDayLong, 10*int(aDayLong.limit)/processes)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			admitted += count(answers)
		})
	}
	close(begin)
	done.Wait()
	return share(admitted, aDayLong.limit)
}
