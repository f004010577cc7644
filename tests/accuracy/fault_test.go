package accuracy

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// faults are what real clients get of a real rlproxy and a real redis-server when things go wrong. Shares are of the limit.
type faults struct {
	changes
	Twice   int64   // charged for a request whose reply was lost, and which was asked again
	Once    int64   // the same with ONCE; 0: there is no such thing
	Forever bool    // the key of such a request never expires
	InStep  float64 // admitted in all, half of it before a failover to a replica that had everything
	Behind  float64 // the same, if the replica did not get what was admitted last, half of the limit
}

// changes are what many connections get, and what becomes of use when the limit changes. Shares are of the limit.
type changes struct {
	Crowd   float64 // admitted to 50 connections that all ask at once
	Raised  float64 // admitted in all, of a limit that was raised by half after it was used up
	Lowered int64   // admitted at once after the first limit was halved
}

// long is a question whose window does not end while a test runs.
var long = question{limit: 100, window: 366 * 24 * 3600 * 1000}

// stand is a row's limiter as users run it: on a node, behind networks that can fail.
type stand struct {
	t    testing.TB
	row  *row
	node *redistest.Server
	addr string // where clients ask
}

func (r *row) stand(t testing.TB) *stand {
	t.Helper()
	s := &stand{t: t, row: r, node: redistest.Start(t)}
	s.addr = s.node.Addr
	if r.command {
		s.addr = startProxy(t, s.node)
	}
	return s
}

// startProxy runs an rlproxy on a node, and returns its address. However busy the machine is, no FAIL policy answers in
// the node's place.
func startProxy(t testing.TB, node *redistest.Server) string {
	t.Helper()
	return proxytest.Start(t, "--backend", node.URL(), "--backend-timeout", "5000", "--fail-policy", "error").Addr
}

// admitted asks n times over a connection of its own, and returns how many were admitted.
func (s *stand) admitted(key string, q question, n int) (admitted int64) {
	s.t.Helper()
	answers, err := s.row.dial(s.t, s.addr).ask(key, q, n)
	require.NoError(s.t, err)
	return count(answers)
}

func count(answers []answer) (admitted int64) {
	for _, a := range answers {
		if a.ok {
			admitted++
		}
	}
	return admitted
}

func share(admitted, limit int64) float64 { return float64(admitted) / float64(limit) }

func (r *row) trouble(t testing.TB) (f faults) {
	t.Helper()
	s := r.stand(t)
	f.Crowd = s.crowd()
	f.Twice, f.Forever = s.lost("twice")
	if r.once {
		f.Once, _ = s.lost("once", "ONCE", "an-id")
	}
	f.Raised, f.Lowered = changed(long, s.admitted)
	f.InStep = r.stand(t).failover(false)
	f.Behind = r.stand(t).failover(true)
	return f
}

// crowd asks over 50 connections, ten times the limit in all.
func (s *stand) crowd() float64 {
	s.t.Helper()
	const connections = 50
	callers := make([]*caller, connections)
	for i := range callers {
		callers[i] = s.row.dial(s.t, s.addr)
	}
	each := 10 * int(long.limit) / connections
	var admitted int64
	var mu sync.Mutex
	var done sync.WaitGroup
	for _, c := range callers {
		done.Go(func() {
			for range each {
				answers, err := c.ask("crowd", long, 1)
				mu.Lock()
				if err != nil {
					s.t.Error(err)
				}
				admitted += count(answers)
				mu.Unlock()
			}
		})
	}
	done.Wait()
	return share(admitted, long.limit)
}

// lost sends a request whose reply is lost, asks again over a new connection, and returns what was charged for both
// and whether the key lives forever.
func (s *stand) lost(key string, more ...any) (charged int64, forever bool) {
	s.t.Helper()
	keys := func() string { return s.node.Do("DBSIZE") }
	network := faultnet.Start(s.t, s.addr)
	first, again := s.row.dial(s.t, network.Addr), s.row.dial(s.t, s.addr)
	before := keys()
	network.Set(faultnet.Faults{SwallowReplies: true})
	_, err := first.conn.Write(proxytest.AppendCommand(nil, first.request(key, long, more...)...))
	require.NoError(s.t, err)
	proxytest.Eventually(s.t, "the node has the request", func() bool { return keys() != before })
	require.NoError(s.t, first.conn.Close())
	answers, err := again.ask(key, long, 1, more...)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 1, count(answers))
	forever = !s.row.command && s.node.Do("PTTL", key) == "-1"
	return long.limit - s.admitted(key, long, 2*int(long.limit)), forever
}

// changed uses all of a limit, raises it by half and uses all of that, and halves the first limit. admitted asks n
// times and returns how many were admitted.
func changed(q question, admitted func(key string, q question, n int) int64) (raised float64, lowered int64) {
	higher, lower := q, q
	higher.limit, lower.limit = q.limit*3/2, q.limit/2
	n := admitted("changed", q, int(q.limit))
	n += admitted("changed", higher, 2*int(q.limit))
	return share(n, higher.limit), admitted("changed", lower, int(q.limit))
}

// failover uses half of the limit, then ends the node, and goes on with what its replica has: the replica takes the
// node's address, and everybody asks there. If it is behind, it has not got the other half, which was used
// before the end.
func (s *stand) failover(behind bool) float64 {
	s.t.Helper()
	replica := redistest.Start(s.t)
	network := faultnet.Start(s.t, s.node.Addr)
	follow(s.t, replica, network.Port)
	half := int(long.limit / 2)
	n := s.admitted("failover", long, half)
	s.node.Do("SET", "marker", 1)
	proxytest.Eventually(s.t, "the replica has the first half", func() bool { return replica.Do("EXISTS", "marker") == "1" })
	if behind {
		network.Set(faultnet.Faults{SwallowReplies: true})
		n += s.admitted("failover", long, half)
	}
	s.node.Kill()
	replica.Do("REPLICAOF", "NO", "ONE")
	s.node.Run()
	follow(s.t, s.node, replica.Port)
	s.node.Do("REPLICAOF", "NO", "ONE")
	c, answers := s.row.dial(s.t, s.addr), []answer(nil)
	proxytest.Eventually(s.t, "an answer of the node", func() (answered bool) {
		var err error
		answers, err = c.ask("failover", long, 2*int(long.limit))
		return err == nil
	})
	return share(n+count(answers), long.limit)
}

// follow makes a server the replica of what listens on a port, and waits until it has everything.
func follow(t testing.TB, s *redistest.Server, port int) {
	t.Helper()
	s.Do("REPLICAOF", "127.0.0.1", port)
	proxytest.Eventually(t, "the replica", func() bool {
		info, err := s.Client.Info(context.Background(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// restart returns what is admitted in all, of the limit, if half of it was used before the embedded engine was restarted.
func restart(t testing.TB) float64 {
	t.Helper()
	slide := rows()[0]
	var n int64
	for _, ask := range []int64{long.limit / 2, 2 * long.limit} {
		p := proxytest.Start(t)
		n += (&stand{t: t, row: slide, addr: p.Addr}).admitted("k", long, int(ask))
		p.Stop(t)
	}
	return share(n, long.limit)
}
