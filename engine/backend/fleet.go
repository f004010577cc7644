// Package backend keeps track of the Redis nodes: which of them holds a key, and which are healthy. It sends nothing
// but probes and requests for the topology. The packages that send commands to nodes (engine/redis and engine/forward)
// have their own queues for each node.
//
// A Fleet is opened from the backends of the configuration. A backend is a URL (url.go): a node, the sentinels of a
// master, or members of a Redis Cluster. From these the fleet derives a Topology (topology.go). A topology is immutable
// and is replaced when the nodes change, so indices stay valid for as long as a user holds the topology that they
// belong to. If there are sentinels or a cluster, a topology watcher (watcher.go, sentinel.go, cluster.go) asks them in
// the background.
//
// A Node (node.go) has a client, tracked connections that can be dropped all at once (connections.go), and a health
// (health.go): users report the result of each round trip with Node.Record, and call Node.Down before the next.
// errors.go classifies the errors of round trips, and busy.go ends a function that does not end by itself. A node that
// has left the topology is closed a few seconds later, after the functions registered with Node.OnClose have run.
//
// No reply of a node can end the process: each goroutine here runs its rounds under Guard (guard.go), and a connection
// refuses replies that announce too much data (package replyscan).
//
// Reading order: fleet.go (this file), url.go, tls.go, topology.go, node.go, connections.go, quiet.go
// (go-redis's own log), health.go, condition.go, errors.go, kind.go, busy.go, guard.go, watcher.go, then cluster.go and
// sentinel.go.
package backend

import (
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/internal/login"
	"github.com/rlproxy/rlproxy/shard"
)

// Config configures a Fleet.
type Config struct {
	// Backends are the nodes: redis://[user:password@]host:port[/db], rediss:// for TLS. Their order does not matter. A
	// node's name for placement is its lower-case host:port/db with 127.0.0.1 for localhost, so a changed name moves
	// keys.
	//
	// redis+sentinel://[user:password@]host:port,host:port/master[/db] is the master that these sentinels name; for
	// placement its name is master/db. The sentinels' own user is given by ?sentinel_username=&sentinel_password=.
	//
	// redis+cluster://[user:password@]host:port,host:port is the Redis Cluster of these nodes. It must be the only
	// backend.
	Backends []string

	// TLS configures connections to rediss backends.
	TLS NodeTLS

	// Logins are for servers whose backends have no user and no password in their URLs. A login is read for each new
	// connection.
	Logins NodeLogins

	// Timeout bounds a dial and a probe. Users of nodes should bound their requests by Fleet.Timeout. The default is
	// 100 ms: well above a healthy round trip, and short for a waiting client. SetTimeout changes it.
	Timeout time.Duration

	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // default time.Now
}

// NodeLogins are how to log in to servers.
type NodeLogins struct{ Nodes, Sentinels login.Login }

// Fleet holds all nodes of a configuration. It is safe for concurrent use.
type Fleet struct {
	config    Config
	timeout   atomic.Int64 // ns, see SetTimeout
	topology  atomic.Pointer[Topology]
	tls       atomic.Pointer[tls.Config] // for new connections to rediss:// backends
	logins    atomic.Pointer[NodeLogins] // for new connections
	watcher   *watcher                   // nil if all backends are single nodes
	recovered atomic.Pointer[[]Recovered]
	reports   atomic.Pointer[[]Attrs]
	windows   atomic.Pointer[func() time.Duration] // nil: nothing is known of windows

	mu    sync.Mutex
	known map[address]*Node // all open nodes; guarded by mu; nil when closed
}

// address identifies a server of a backend: a node, a seed or a sentinel.
type address struct {
	backend *backend
	addr    string // host:port
}

// maxNodes bounds the number of open nodes, whatever addresses nodes and sentinels name.
// Redis recommends at most 1000 masters in a cluster.
const maxNodes = 4096

// Recovered is called when a node answers again after it was Suspect or Down, as given by was.
type Recovered func(n *Node, was Health)

// Attrs returns attributes, pairs of a name and a value, for a log line that says that a node
// is still down, or is up again.
type Attrs func(n *Node) []any

// Open returns the nodes of the configuration. It does not wait for them: if a node cannot
// be reached, its requests fail, but Open does not.
func Open(config Config) (*Fleet, error) {
	backends, err := parseBackends(config.Backends)
	if err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(config.Timeout, 100*time.Millisecond)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	if config.Now == nil {
		config.Now = time.Now
	}
	f := &Fleet{config: config, known: make(map[address]*Node)}
	f.SetTimeout(config.Timeout)
	f.recovered.Store(new([]Recovered))
	f.reports.Store(new([]Attrs))
	f.SetLogins(config.Logins)
	if err := f.SetTLS(config.TLS); err != nil {
		return nil, err
	}
	for _, b := range backends {
		if b.kind != oneNode {
			f.watcher = newWatcher(f, backends)
			f.watcher.open()
			return f, nil
		}
	}
	var names []string
	top := &Topology{}
	for _, b := range backends {
		top.Nodes, names = append(top.Nodes, f.node(b, b.seeds[0])), append(names, b.name())
	}
	top.placement = shard.NewPlacement(names)
	f.topology.Store(top)
	return f, nil
}

// Topology returns the nodes in use. While nothing changes it returns the same pointer,
// so that users can keep what they derive from it.
func (f *Fleet) Topology() *Topology { return f.topology.Load() }

// Check has every node probed soon, and returns at once. Without requests, nothing else would show that a node is away.
func (f *Fleet) Check() {
	for _, n := range f.Topology().Nodes {
		n.Check()
	}
}

// SetWindows sets the function that returns the shortest window that was asked for lately, a hundredth of which the
// clocks of nodes may be off. It is called now and then, by several goroutines.
func (f *Fleet) SetWindows(shortest func() time.Duration) { f.windows.Store(&shortest) }

// shortest returns the shortest window that was asked for lately, or an hour if none is known.
func (f *Fleet) shortest() time.Duration {
	if shortest := f.windows.Load(); shortest != nil {
		return (*shortest)()
	}
	return time.Hour
}

// Timeout returns how long a request may wait for its node.
func (f *Fleet) Timeout() time.Duration { return time.Duration(f.timeout.Load()) }

// SetTimeout changes the timeout of later requests. Requests under way keep their deadlines.
func (f *Fleet) SetTimeout(d time.Duration) { f.timeout.Store(int64(d)) }

// OnRecovered registers a function that is called when a node answers again. Register
// functions before the fleet is used.
func (f *Fleet) OnRecovered(call Recovered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := slices.Concat(*f.recovered.Load(), []Recovered{call})
	f.recovered.Store(&calls)
}

// AddAttrs registers a function that adds attributes to log lines about nodes that are down.
// Register functions before the fleet is used.
func (f *Fleet) AddAttrs(call Attrs) {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := slices.Concat(*f.reports.Load(), []Attrs{call})
	f.reports.Store(&calls)
}

// CheckTopology makes the watcher, if there is one, check the topology soon. Call it when the
// topology may have changed.
func (f *Fleet) CheckTopology() {
	if f.watcher != nil {
		f.watcher.wake()
	}
}

// Redirected returns the node to which n redirects a command with the error err, if that is MOVED or ASK, and whether
// it is ASK. Such a command has not run. Redirected returns nil for other errors, and if redirects are not followed,
// because all backends are single nodes, if the fleet is closed, or if there are maxNodes already. If known is true,
// it also returns nil if the fleet does not have the node yet.
func (f *Fleet) Redirected(n *Node, err error, known bool) (to *Node, asking bool) {
	if !IsReply(err) || f.watcher == nil || n.backend == nil {
		return nil, false
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return nil, false
	}
	f.watcher.wake()
	addr := fullAddress(words[2], n.addr)
	if known && !f.knows(address{n.backend, addr}) {
		return nil, false
	}
	return f.node(n.backend, addr), words[0] == "ASK"
}

// knows reports whether the fleet has a node at the address.
func (f *Fleet) knows(at address) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[at] != nil
}

// SetTLS reads the files of t and uses them for new connections. Open connections are not
// affected. If SetTLS returns an error, it has changed nothing.
func (f *Fleet) SetTLS(t NodeTLS) error {
	config, err := t.load()
	if err != nil {
		return err
	}
	f.tls.Store(config)
	return nil
}

// SetLogins uses l for new connections. Open connections are not affected.
func (f *Fleet) SetLogins(l NodeLogins) { f.logins.Store(&l) }

// Close closes all nodes, each after its OnClose functions. The fleet must not be used afterwards.
func (f *Fleet) Close() error {
	if f.watcher != nil {
		f.watcher.close()
	}
	f.mu.Lock()
	known := f.known
	f.known = nil
	f.mu.Unlock()
	var errs []error
	for _, n := range known {
		errs = append(errs, n.close())
	}
	if f.watcher != nil {
		for _, n := range f.watcher.absent {
			errs = append(errs, n.close())
		}
	}
	return errors.Join(errs...)
}

// node returns the node at addr, and opens it if it is new. It returns nil after Close,
// or if there are maxNodes already.
func (f *Fleet) node(b *backend, addr string) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := address{b, addr}
	n := f.known[at]
	if n == nil && f.known != nil && len(f.known) < maxNodes {
		n = openNode(f, b, addr)
		f.known[at] = n
	}
	return n
}

// forget removes and returns the nodes for which gone returns true.
func (f *Fleet) forget(gone func(*Node) bool) (out []*Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, n := range f.known {
		if gone(n) {
			delete(f.known, at)
			out = append(out, n)
		}
	}
	return out
}
