package accuracy

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// faults are what real clients get of a real limiter and a real redis-server when things go wrong. Shares are of the limit.
type faults struct {
	Redis     charge  // for a request if Redis's reply to the limiter was lost
	Caller    charge  // for a request if the limiter's reply to its caller was lost
	Once      charge  // the same with ONCE
	InStep    float64 // admitted in all, half of it before a failover to a replica that had everything
	Behind    float64 // the same, if the replica did not get what was admitted last, half of the limit
	Confirmed float64 // the same with wait-replicas 1; 0: not measured
	Restart   float64 // admitted in all, half of it before a restart of a limiter that has no Redis
	Crowd     float64 // admitted to many clients that all ask at once
}

// charge is what was charged for one request whose first reply was lost, and which was sent again
// until there was an answer.
type charge struct {
	Units   int64 // 0: not measured
	Silent  bool  // the caller saw no error, and so asked once
	Forever bool  // the key never expires
}

// long is a rule whose window does not end while a test runs. No peer has a longer window.
var long = rule{limit: 100, window: dayLength}

// asking sends n requests about a key, as one client. After an error it may be called again.
type asking func(key string, q rule, n int) ([]answer, error)

// stand is a limiter as users run it.
type stand struct {
	t       testing.TB
	node    *redistest.Server // its Redis; nil if the state is in its own process
	network *faultnet.Proxy   // between the limiter and its Redis
	server  bool              // callers ask a server, and not Redis by themselves
	addr    string            // where they ask
	client  func(addr string) asking
	clients int // how many ask at once
}

func (r *row) stand(t testing.TB, args ...string) *stand {
	t.Helper()
	node := redistest.Start(t)
	network := faultnet.Start(t, node.Addr)
	s := &stand{t: t, node: node, network: network, server: r.command, addr: network.Addr, clients: 50}
	if r.command {
		s.addr = startProxy(t, "redis://"+network.Addr, args...)
	}
	s.client = func(addr string) asking { return r.client(t, addr) }
	return s
}

// embedded is the row's limiter with its state in rlproxy's memory.
func (r *row) embedded(t testing.TB) *stand {
	t.Helper()
	return &stand{t: t, server: true, addr: proxytest.Start(t).Addr, client: func(addr string) asking { return r.client(t, addr) }, clients: 50}
}

// client returns a client that connects anew after an error. More words are options of the command.
func (r *row) client(t testing.TB, addr string, more ...any) asking {
	t.Helper()
	c := r.dial(t, addr)
	return func(key string, q rule, n int) (answers []answer, err error) {
		if c == nil {
			if c, err = r.connect(t, addr); err != nil {
				return nil, err
			}
		}
		if answers, err = c.ask(key, q, n, more...); err != nil {
			c = nil
		}
		return answers, err
	}
}

// startProxy runs an rlproxy on a node, and returns its address. However busy the machine is, no FAIL policy answers in
// the node's place.
func startProxy(t testing.TB, url string, args ...string) string {
	t.Helper()
	return proxytest.Start(t, append(args, "--backend", url, "--backend-timeout", "5000", "--fail-policy", "error")...).Addr
}

// admitted sends n requests as a new client, and returns how many were admitted.
func (s *stand) admitted(key string, q rule, n int) (admitted int64) {
	s.t.Helper()
	answers, err := s.client(s.addr)(key, q, n)
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

// noAdvance makes rlproxy ask its node each time. What is advanced when a node ends counts as used, although it was not.
var noAdvance = []string{"--advance", "no"}

// trouble measures the faults of a limiter. start runs it anew, with arguments if it is rlproxy.
func trouble(t testing.TB, start func(args ...string) *stand) (f faults) {
	t.Helper()
	s := start()
	f.Crowd = s.crowd()
	if s.server {
		network := faultnet.Start(t, s.addr)
		f.Caller = s.lost("caller", network, s.client(network.Addr), s.client(s.addr))
	}
	if s.node == nil {
		f.Restart = share(s.admitted("restart", long, int(long.limit/2))+start().admitted("restart", long, 2*int(long.limit)), long.limit)
		return f
	}
	ask := s.client(s.addr)
	f.Redis = s.lost("redis", s.network, ask, ask)
	f.InStep = start(noAdvance...).failover(inStep)
	f.Behind = start(noAdvance...).failover(behind)
	return f
}

// once measures what ONCE makes of a lost reply.
func (r *row) once(s *stand) charge {
	s.t.Helper()
	network := faultnet.Start(s.t, s.addr)
	return s.lost("once", network, r.client(s.t, network.Addr, "ONCE", "an-id"), r.client(s.t, s.addr, "ONCE", "an-id"))
}

// crowd sends ten times the limit in all, from many clients at once.
func (s *stand) crowd() float64 {
	s.t.Helper()
	var admitted atomic.Int64
	var done sync.WaitGroup
	begin := make(chan struct{})
	for range s.clients {
		ask := s.client(s.addr)
		_, err := ask("first", long, 1)
		require.NoError(s.t, err)
		done.Go(func() {
			<-begin
			for range 10 * int(long.limit) / s.clients {
				answers, err := ask("crowd", long, 1)
				if err != nil {
					s.t.Error(err)
				}
				admitted.Add(count(answers))
			}
		})
	}
	close(begin)
	done.Wait()
	return share(admitted.Load(), long.limit)
}

// lost makes a request whose reply is lost in a network, once: its connection is cut when the request was run. If the
// client gets an error, it asks again until it gets an answer.
func (s *stand) lost(key string, network *faultnet.Proxy, first, again asking) (c charge) {
	s.t.Helper()
	var lost atomic.Bool
	network.Set(faultnet.Faults{Lose: func() bool { return s.ran(key) && lost.CompareAndSwap(false, true) }})
	_, err := first(key, long, 1)
	require.True(s.t, lost.Load(), "no reply was lost")
	c.Silent = err == nil
	if err != nil {
		proxytest.Eventually(s.t, "an answer", func() bool {
			_, err := again(key, long, 1)
			return err == nil
		})
	}
	network.Set(faultnet.Faults{})
	c.Forever = !s.server && s.node.Do("PTTL", key) == "-1"
	c.Units = long.limit - s.admitted(key, long, 2*int(long.limit))
	return c
}

// ran reports whether Redis has state of a key. Without a Redis, the first reply is about the key.
func (s *stand) ran(key string) bool {
	if s.node == nil {
		return true
	}
	keys, err := s.node.Client.Keys(context.Background(), "*"+key+"*").Result()
	return err == nil && len(keys) > 0
}

// lag is what a replica lacks that takes over.
type lag int

const (
	inStep   lag = iota // nothing
	behind              // half of the limit, which was used before the end of the node
	refusing            // the same, but requests were refused because it did
)

// failover uses half of the limit, then ends the node, and goes on with what its replica has: the
// replica takes the node's address, and all clients ask there.
func (s *stand) failover(lacks lag) float64 {
	s.t.Helper()
	replica := redistest.Start(s.t)
	network := faultnet.Start(s.t, s.node.Addr)
	for _, r := range []*redistest.Server{s.node, replica} {
		r.Do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	}
	follow(s.t, replica, network.Port)
	ask := s.client(s.addr)
	var n int64
	use := func(most int64) { // through errors: requests that a node did not get
		asked := int64(0)
		proxytest.Eventually(s.t, "answers", func() bool {
			for asked < most {
				answers, err := ask("failover", long, 1)
				if err != nil {
					return false
				}
				asked++
				n += count(answers)
			}
			return true
		})
	}
	use(long.limit / 2)
	s.node.Do("SET", "marker", 1)
	proxytest.Eventually(s.t, "the replica has the first half", func() bool { return replica.Do("EXISTS", "marker") == "1" })
	switch lacks {
	case behind:
		network.Set(faultnet.Faults{SwallowReplies: true})
		use(long.limit / 2)
	case refusing:
		network.Set(faultnet.Faults{SwallowReplies: true})
		for range long.limit / 2 {
			if answers, err := ask("failover", long, 1); err == nil { // else it is refused
				n += count(answers)
			}
		}
	}
	s.node.Kill()
	replica.Do("REPLICAOF", "NO", "ONE")
	s.node.Run()
	follow(s.t, s.node, replica.Port)
	s.node.Do("REPLICAOF", "NO", "ONE")
	if lacks == refusing {
		follow(s.t, replica, s.node.Port)
		proxytest.Eventually(s.t, "the replica confirms", func() bool { return s.node.Do("WAIT", 1, 1000) == "1" })
		for began := time.Now(); n < long.limit && time.Since(began) < 3*time.Second; { // denials are remembered for 1 s
			use(1)
		}
	}
	use(2 * long.limit)
	return share(n, long.limit)
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
