package backend

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/login"
)

// Node is one Redis server.
type Node struct {
	fleet   *Fleet
	backend *backend // the backend that the node belongs to; nil if the node is absent
	addr    string   // host:port; empty if the node is absent
	name    string   // host:port, or host:port/db if another node is a database of the same server
	client  *redis.Client
	conns   Connections // open connections of client
	health  healthCheck

	// Batches counts round trips, for INFO. Users of the node increment it.
	Batches atomic.Int64

	malformed *episodes.Episode // malformed replies
	full      *episodes.Episode // while the node's memory is nearly full
	clock     *episodes.Episode // while the node's clock is off

	facts atomic.Pointer[facts] // nil: not known yet

	// Refused is the last call, if the node refused it, else nil. Users of the node write it.
	Refused atomic.Pointer[RefusedCall]

	mu      sync.Mutex
	onClose []func() error // functions to call before the client is closed; guarded by mu
	closed  bool           // guarded by mu
}

func openNode(f *Fleet, b *backend, addr string) *Node {
	n := &Node{fleet: f, backend: b, addr: addr, name: addr + b.suffix}
	n.client = redis.NewClient(n.Options(&n.conns))
	n.openHealth()
	n.health.open() // until close
	return n
}

// absentNode returns a stand-in for a node whose address is unknown. It is Down and has no client. why is its Reason.
func absentNode(f *Fleet, name, why string) *Node {
	n := &Node{fleet: f, name: name}
	n.openHealth()
	n.health.failures.Store(int32(Down))
	n.health.cause.Store(&why)
	return n
}

func (n *Node) openHealth() {
	n.health.name, n.health.config = n.name, &n.fleet.config
	n.health.probe, n.health.recovered = n.probe, n.recovered
	n.health.record = func(err error) { n.failed(err, n.health.fail) }
	n.health.examine, n.health.report = n.examine, n.report
	log, now := n.fleet.config.Logger, n.fleet.config.Now
	n.health.down = episodes.New(log, now, down, "node", n.name)
	n.malformed = episodes.New(log, now, malformed, "node", n.name)
	n.full = episodes.New(log, now, memoryNearlyFull, "node", n.name)
	n.clock = episodes.New(log, now, clocksDiffer, "node", n.name)
}

// Name returns the node's address, host:port, or host:port/db if another node is a database of the same server.
func (n *Node) Name() string { return n.name }

// Client returns the node's client, which uses RESP2 and never sends anything twice. Every
// request needs a context with a deadline, because the client has no timeout of its own: see
// Fleet.Timeout. Client returns nil if the node's address is unknown.
func (n *Node) Client() *redis.Client { return n.client }

// Subscriber returns another client of the node, for a subscription. The caller closes it. The greeting and SUBSCRIBE
// time out after the current Fleet.Timeout, so that the subscription can be closed even if the node hangs.
func (n *Node) Subscriber() *redis.Client {
	o := n.Options(&n.conns)
	o.ReadTimeout, o.WriteTimeout = n.Timeout(), n.Timeout()
	return redis.NewClient(o)
}

// Timeout returns how long a request may wait for the node: Fleet.Timeout.
func (n *Node) Timeout() time.Duration { return n.fleet.Timeout() }

// Clustered reports whether the node belongs to a Redis Cluster, whose keys are placed by slots.
func (n *Node) Clustered() bool { return n.backend != nil && n.backend.kind == cluster }

// Health returns the state of the node's health.
func (n *Node) Health() Health { return n.health.state() }

// Down reports whether the node's state is Down: requests should be answered by their FAIL policy at once.
func (n *Node) Down() bool { return Health(n.health.failures.Load()) == Down }

// Reason returns why the node is not up, in a few words.
func (n *Node) Reason() string { return n.health.reason() }

// UntilProbe returns the ms until the next probe, at least 1. Before that, another attempt of a client is useless.
func (n *Node) UntilProbe() int64 { return n.health.untilProbe() }

// Failures returns how many round trips failed while the node was not down.
func (n *Node) Failures() int64 { return n.health.failed.Load() }

// Record updates the node's health after a round trip. err must be nil if the node replied,
// even with an error, unless Failed returns true for that error.
func (n *Node) Record(err error) {
	if err == nil {
		if n.health.failures.Load() == int32(Suspect) || n.health.lateFrom.Load() != 0 {
			n.health.succeed()
		}
		if n.malformed.Open.Load() {
			n.malformed.End()
		}
		return
	}
	if TimedOut(err) && !NeverConnected(err) {
		n.failed(err, n.health.late)
	} else {
		n.failed(err, n.health.fail)
	}
}

// failed records, by record, that the node has failed a request or a probe.
func (n *Node) failed(err error, record func(error) bool) {
	if Demoted(err) {
		n.conns.DropAll()
	}
	if errors.Is(err, ErrMalformed) {
		n.malformed.Note("times", 1, func() []any { return []any{"why", err} })
	}
	if record(err) {
		n.fleet.CheckTopology()
	}
}

// Check makes the prober probe the node soon.
func (n *Node) Check() { n.health.check() }

// The kinds of trouble with a node.
var (
	down      = episodes.Trouble{Began: "node is down", Still: "node is still down", Ended: "node is up"}
	malformed = episodes.Trouble{
		Began: "the node sent a malformed reply; what waited on the same connection gets none",
		Ended: "the node sends no malformed replies any more", Calm: episodes.Every,
	}

	// AnsweredInPlace is that of a node that is up, but refuses calls or is slow. It ends when the node decides
	// requests, and FAIL policies have answered none in its place for a while.
	AnsweredInPlace = episodes.Trouble{
		Began: "FAIL policies are answering in place of the node",
		Ended: "FAIL policies no longer answer in place of the node",
		Calm:  10 * time.Second,
	}
)

// Doubt makes the watcher, if there is one, ask soon for the topology, beginning with another server than before.
// Call it for an error that is CutOff.
func (n *Node) Doubt() {
	if w := n.fleet.watcher; w != nil {
		w.doubted.Store(n)
		w.wake()
	}
}

// Options returns the options for another client of the node, whose connections conns tracks.
// Its requests need a deadline, as those of Client do.
func (n *Node) Options(conns *Connections) *redis.Options {
	return n.fleet.options(n.backend, n.addr, conns)
}

// OnClose registers a function to be called before the node's client is closed: some time after the node has left the
// topology, or when the fleet is closed. If the node is closed already, OnClose calls f at once.
func (n *Node) OnClose(f func() error) {
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.onClose = append(n.onClose, f)
	}
	n.mu.Unlock()
	if closed {
		_ = f() // there is no caller of close to report the error to
	}
}

func (n *Node) close() error {
	n.mu.Lock()
	calls := n.onClose
	n.onClose, n.closed = nil, true
	n.mu.Unlock()
	var errs []error
	for _, f := range calls {
		errs = append(errs, f())
	}
	if n.client != nil {
		n.health.close()
		errs = append(errs, n.client.Close())
	}
	return errors.Join(errs...)
}

// probeScript does nothing, but is refused whenever a deciding script would be: by a node
// that is loading, busy with another script, or a replica.
const probeScript = "#!lua\nreturn 1"

// probe runs probeScript on the node. In a cluster the key of the script may be on
// another node; an error reply that says so shows that the node works.
func (n *Node) probe(ctx context.Context) error {
	err := ErrPanicked
	Guard(n.fleet.config.Logger, "probe of "+n.name, func() {
		ctx, cancel := context.WithTimeout(ctx, n.fleet.Timeout())
		defer cancel()
		err = n.client.Process(ctx, redis.NewCmd(ctx, "eval", probeScript, 1, "rl:{}"))
		if isBusy(err) {
			n.endBusyFunction(ctx)
		}
	})
	return err
}

func (n *Node) recovered(was Health) {
	for _, call := range *n.fleet.recovered.Load() {
		call(n, was)
	}
}

// report calls the fleet's OnReport functions and returns their attributes.
func (n *Node) report() (attrs []any) {
	for _, call := range *n.fleet.reports.Load() {
		attrs = append(attrs, call(n)...)
	}
	return attrs
}

// poolSize is the number of connections of a node's client: two for batches in flight, one for a probe, and four for
// packages layout, hotkeys and policy/store, which use them rarely but must not make a batch wait.
const poolSize = 7

// MaxConnections is the most connections to a node: those of a client with Options, and one of Subscriber.
const MaxConnections = poolSize + 1

// options returns the options for a client of the node of backend b at addr.
func (f *Fleet) options(b *backend, addr string, conns *Connections) *redis.Options {
	o := *b.options
	o.Addr = addr
	if o.Username == "" && o.Password == "" {
		o.CredentialsProviderContext = f.logIn(func(l *NodeLogins) login.Login { return l.Nodes })
	}
	o.Dialer = conns.dialer(b.tls, f.tls.Load, f.Timeout)
	o.Protocol = 2      // replies of scripts are strings, for which RESP3 has no advantage
	o.MaxRetries = -1   // a command that may have been applied is never sent again
	o.DialerRetries = 1 // a dead node costs one dial
	o.ContextTimeoutEnabled = true
	o.DialTimeout = time.Hour // the dialer has a shorter one
	o.ReadTimeout = -1        // requests have deadlines of their own
	o.WriteTimeout = -1
	o.PoolSize = poolSize
	o.PipelinePoolSize = -1 // one pool: an open connection serves both
	o.OnConnect = nameConnection
	o.DisableIdentity = true
	return &o
}

// logIn returns what reads a login for a new connection. If it cannot, nothing is sent on the connection.
func (f *Fleet) logIn(which func(*NodeLogins) login.Login) func(context.Context) (user, password string, err error) {
	return func(context.Context) (user, password string, err error) {
		if user, password, err = which(f.logins.Load()).Read(); err != nil {
			err = unspoken{errors.New(err.Error())} // without a cause, so that Reason shows the whole text
		}
		return user, password, err
	}
}

// nameConnection names a new connection for CLIENT LIST. A node that is busy or does not permit the
// command refuses the name, but the connection is used all the same: endBusyFunction needs one
// to end the function that keeps the node busy. One that needs a login is of no use: another may have a password.
func nameConnection(ctx context.Context, conn *redis.Conn) error {
	err := conn.ClientSetName(ctx, "rlproxy").Err()
	if IsReply(err) && !hasCode(err, []string{"NOAUTH"}) {
		return nil
	}
	return err
}

// pause waits for d, or until ctx ends or a value arrives on wake, which may be nil. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(d):
	}
	return true
}
