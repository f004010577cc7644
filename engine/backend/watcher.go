package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/login"
	"github.com/rlproxy/rlproxy/shard"
)

// watcher keeps the topology current if there are sentinels or a cluster. It asks them at regular intervals, soon after
// a node has failed or turns out to be demoted or cut off, and when a node replies that a slot has moved.
//
// Each master has its own queues, pool and health, so a master that hangs delays only its own keys. go-redis's cluster
// client is not used because it has one queue for all masters and repeats commands that may have been applied.
type watcher struct {
	fleet    *Fleet
	backends []*backend
	absent   []*Node // stand-ins for masters whose address is unknown
	unserved *Node   // the stand-in for the master of slots that no node serves; one of absent

	// Used only by the watcher's goroutine:
	// clients of seeds and sentinels; backends may have different logins for one server
	clients map[address]*redis.Client
	left    map[*Node]time.Time // when a node that is in no topology left it
	turn    int                 // the index of the server to ask first, modulo their number
	unknown *episodes.Episode   // while the topology is
	why     string              // the last reason for it

	// the node about which Node.Doubt was called since the last request; nil if there is none
	doubted atomic.Pointer[Node]

	woken chan struct{} // wakes the goroutine
	stop  context.CancelFunc
	done  sync.WaitGroup // the goroutine, and those that close nodes
}

const (
	// minPause is the shortest pause between requests for the topology, used after a failure.
	minPause = 100 * time.Millisecond
	// sentinelPause is the usual pause between requests to sentinels. It is short because a
	// demoted master may not know that it was demoted.
	sentinelPause = time.Second
	// clusterPause is the usual pause between requests to a cluster. It is long because the
	// nodes themselves reply that a slot has moved.
	clusterPause = 5 * time.Second
	// retireAfter is how long a node that has left the topology is kept: longer than any
	// request takes that was sent to it before.
	retireAfter = 3 * time.Second
)

// topologyUnknown is the trouble of a fleet whose nodes cannot be found, or not be found anew.
var topologyUnknown = episodes.Trouble{
	Began: "topology unknown", Still: "topology still unknown", Ended: "topology known again",
}

// errNoAnswer is the error if no server knows the topology.
var errNoAnswer = errors.New("no sentinel or cluster node answered")

// noAnswer returns the error after every server has failed to answer, with the given failures, in any order. The error
// includes one that a server replied with, such as NOPERM, because an operator can fix its cause. Of several it is
// always the same one, as note logs each error that differs from the one before. If none replied, it says why.
func noAnswer(failures []error) error {
	var said []error
	reason := ""
	for _, err := range failures {
		if IsReply(err) {
			said = append(said, err)
		} else if text := Reason(err); reason == "" || text < reason {
			reason = text
		}
	}
	if len(said) == 0 {
		return fmt.Errorf("%w: %s", errNoAnswer, reason)
	}
	first := slices.MinFunc(said, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return fmt.Errorf("%w as it should; one said: %w", errNoAnswer, first)
}

// newWatcher returns the watcher of a fleet with sentinels or a cluster. Until it has
// found the nodes, requests are answered by their FAIL policy.
func newWatcher(f *Fleet, backends []*backend) *watcher {
	w := &watcher{
		fleet: f, backends: backends,
		clients: make(map[address]*redis.Client), left: make(map[*Node]time.Time), woken: make(chan struct{}, 1),
		unknown: episodes.New(f.config.Logger, f.config.Now, topologyUnknown),
	}
	w.unserved = w.standIn(backends[0], "no node serves the key's slot")
	f.topology.Store(w.first())
	return w
}

// open starts the watcher's goroutine.
func (w *watcher) open() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.done.Go(func() { w.run(ctx) }) // until close
}

// standIn returns an absent node for a node of b whose address is unknown.
func (w *watcher) standIn(b *backend, why string) *Node {
	name := b.seeds[0]
	if len(w.backends) > 1 {
		name += "/" + b.name() // sentinels may know several masters
	}
	n := absentNode(w.fleet, name, why)
	w.absent = append(w.absent, n)
	return n
}

// first returns the topology before any server has answered.
func (w *watcher) first() *Topology {
	t := &Topology{}
	var names []string
	for _, b := range w.backends {
		var n *Node
		switch b.kind {
		case oneNode:
			n = w.fleet.node(b, b.seeds[0])
		case sentinels:
			n = w.standIn(b, "no sentinel has named the master yet")
		case cluster:
			n = w.standIn(b, "no cluster node has answered yet")
		}
		t.Nodes, names = append(t.Nodes, n), append(names, b.name())
	}
	if w.backends[0].kind == cluster {
		t.slots = new([shard.Slots]uint16)
		return t
	}
	t.placement = shard.NewPlacement(names)
	return t
}

// wake makes the watcher check the topology soon.
func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *watcher) close() {
	w.stop()
	w.done.Wait()
}

func (w *watcher) run(ctx context.Context) {
	defer func() {
		for _, client := range w.clients {
			_ = client.Close()
		}
	}()
	usual := clusterPause
	if w.backends[0].kind != cluster {
		usual = sentinelPause
	}
	retry := minPause
	for {
		healthy, err := false, ErrPanicked
		Guard(w.fleet.config.Logger, "watching the topology", func() {
			healthy, err = w.find(ctx)
			w.retire()
		})
		if ctx.Err() == nil {
			w.note(err)
		}
		wait := usual
		if healthy {
			retry = minPause
		} else {
			wait, retry = retry, min(2*retry, sentinelPause)
		}
		// wake cannot make the pause shorter than minPause, because failures come in bursts.
		if !pause(ctx, minPause, nil) || !pause(ctx, wait-minPause, w.woken) {
			return
		}
	}
}

// note notes why the topology could not be found, or, if err is nil, that it was.
func (w *watcher) note(err error) {
	if err == nil {
		w.unknown.End()
		return
	}
	why := err.Error()
	if errors.Is(err, errNoAnswer) && !IsReply(err) {
		why = errNoAnswer.Error() // in whatever way nobody answers
	}
	if why != w.why {
		w.unknown.Take() // another reason is another episode
	}
	w.why = why
	w.unknown.Note("times", 1, func() []any { return []any{"why", err} })
}

// find asks for the topology and stores it. healthy is false if there is a reason to ask again
// soon: an error, or a node that is not up.
func (w *watcher) find(ctx context.Context) (healthy bool, err error) {
	now := w.fleet.topology.Load()
	if slices.Contains(now.Nodes, w.doubted.Swap(nil)) { // doubts about a node that has left may come late
		w.turn++
	}
	next := &Topology{placement: now.placement}
	for i, b := range w.backends {
		switch b.kind {
		case oneNode:
			next.Nodes = append(next.Nodes, now.Nodes[i])
		case sentinels:
			n, failure := w.findMaster(ctx, b, now.Nodes[i])
			if failure != nil {
				err = failure
			}
			next.Nodes = append(next.Nodes, n)
		case cluster: // the only backend
			if next, err = w.askCluster(ctx, b, now); err != nil {
				next = now
			}
		}
	}
	healthy = err == nil
	for _, n := range next.Nodes {
		healthy = healthy && n.Health() == Up
	}
	if !healthy {
		w.turn++ // another server may know more
	}
	if !next.equal(now) {
		w.fleet.topology.Store(next)
	}
	return healthy, err
}

// findMaster returns the master that the sentinels of b name. now is the master so far, which
// findMaster returns if it is still the master, or if no sentinel answers.
func (w *watcher) findMaster(ctx context.Context, b *backend, now *Node) (*Node, error) {
	addr, err := w.master(ctx, b)
	if err != nil || now.client != nil && addr == now.addr {
		return now, err
	}
	n := w.fleet.node(b, addr)
	if n == nil {
		return now, nil
	}
	if now.client == nil { // at the start
		w.fleet.config.Logger.Info("Sentinel named the master", "master", b.master, "node", addr)
	} else {
		w.fleet.config.Logger.Warn("Sentinel reports a new master", "master", b.master, "node", addr)
	}
	return n, nil
}

// retire closes nodes that left the topology more than retireAfter ago. It does not wait until they are closed.
func (w *watcher) retire() {
	now, used := w.fleet.config.Now(), map[*Node]bool{}
	for _, n := range w.fleet.topology.Load().Nodes {
		used[n] = true
	}
	old := w.fleet.forget(func(n *Node) bool {
		since, gone := w.left[n]
		switch {
		case used[n]:
			delete(w.left, n)
		case !gone:
			w.left[n] = now
		case now.Sub(since) > retireAfter:
			delete(w.left, n)
			return true
		}
		return false
	})
	for _, n := range old {
		w.done.Go(func() { // ends with the node's OnClose functions, which may wait for a long forwarded command
			Guard(w.fleet.config.Logger, "closing "+n.name, func() {
				_ = n.close() // an error is of no interest: nothing uses the node
			})
		})
	}
}

// client returns the client for a seed or sentinel of b.
func (w *watcher) client(b *backend, addr string) *redis.Client {
	at := address{b, addr}
	if c := w.clients[at]; c != nil {
		return c
	}
	options := w.fleet.options(b, addr, new(Connections))
	options.PoolSize = 1
	if b.kind == sentinels {
		options.Username, options.Password, options.DB = b.askAs[0], b.askAs[1], 0
		if options.CredentialsProviderContext = nil; b.askAs == [2]string{} {
			options.CredentialsProviderContext = w.fleet.logIn(func(l *NodeLogins) login.Login { return l.Sentinels })
		}
	}
	w.clients[at] = redis.NewClient(options)
	return w.clients[at]
}

// within returns the context of one request for the topology. It has a timeout of at least minPause.
func (w *watcher) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(w.fleet.Timeout(), minPause))
}
