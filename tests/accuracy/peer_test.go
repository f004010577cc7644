package accuracy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/tests/peers"
	"github.com/stretchr/testify/require"
)

// processes is how many clients of a peer ask at once.
const processes = 8

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
	if err == nil {
		t.Cleanup(p.Stop)
		_, err = asker(p)("first", long, 1)
	}
	if err != nil {
		g.wrong = reason(err)
		return
	}
	g.faults = trouble(t, func(...string) *stand { return g.stand(t) })
	g.seen = realClock(asker(p)).live(t)
}

// stand runs the peer behind a network that can fail.
func (g *other) stand(t testing.TB) *stand {
	t.Helper()
	node := redistest.Start(t)
	network := faultnet.Start(t, node.Addr)
	p, err := peers.Start(t.Context(), g.name, network.Addr)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	s := &stand{t: t, node: node, network: network, server: p.HasServer(), addr: p.Address(), clients: processes}
	if !p.HasStore() {
		s.node, s.network = nil, nil
	}
	s.client = func(addr string) asking {
		c, err := p.Connect(addr)
		require.NoError(t, err)
		t.Cleanup(c.Stop)
		return asker(c)
	}
	return s
}

// reason returns the beginning of an error, for a cell of a table.
func reason(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.ReplaceAll(line[:min(len(line), 120)], "|", "/")
}

// asker returns a function that asks a peer. A server that speaks RESP is asked one request at a time: throttlecrab delays
// replies to requests that are sent together, by the 40 ms for which its client may delay an acknowledgement.
func asker(p *peers.Peer) asking {
	return func(key string, q rule, n int) (answers []answer, err error) {
		together := n
		if p.Pipelines() {
			together = 1
		}
		asked := peers.Request{Key: key, Limit: q.limit, Window: time.Duration(q.window) * time.Millisecond, Cost: 1}
		for len(answers) < n {
			replies, err := p.Ask(slices.Repeat([]peers.Request{asked}, together)...)
			if err != nil {
				return nil, err
			}
			for _, r := range replies {
				if r.Err != nil {
					return nil, r.Err
				}
				a := answer{r.Allowed, silent}
				if r.RetryAfter >= 0 {
					a.retry = r.RetryAfter.Milliseconds()
				}
				answers = append(answers, a)
			}
		}
		return answers, nil
	}
}
