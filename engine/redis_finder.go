package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/shard"
)

// finder keeps the topology true where sentinels or a cluster say which nodes there
// are. It asks them now and then, soon after a node failed or refused as one does
// that is no longer a master, and whenever a node says that a slot has moved.
//
// Each master has a queue, a pool and a health of its own, so that one which hangs
// holds nobody else up. That is why go-redis's own cluster client is not used: it
// has one queue less, and repeats what may have run.
type finder struct {
	e        *Redis
	backends []*backend

	mu    sync.Mutex
	known map[address]*node        // guarded by mu; of nil when closed
	left  map[*node]time.Duration  // guarded by mu: out of use, and since when
	asked map[string]*redis.Client // of the finder's goroutine: seeds and sentinels
	turn  int                      // of the finder's goroutine: whom to ask first

	look chan struct{} // wakes the goroutine
	stop context.CancelFunc
	done sync.WaitGroup
}

// address is where a backend's node is.
type address struct {
	backend *backend
	addr    string // host:port
}

const (
	findSoon  = 100 * time.Millisecond // between questions while there is trouble
	findOften = time.Second            // of sentinels: an old master may not know that it is one
	findCalm  = 5 * time.Second        // of a cluster, whose nodes say when slots move

	// retireAfter is how long a node that is in no topology is kept: longer than any
	// request that was on its way there.
	retireAfter = 3 * time.Second
)

// openFinder finds the nodes of backends, some of which are not simply nodes, until
// close. Until it has found them their requests get their policy.
func openFinder(e *Redis, backends []*backend) *finder {
	f := &finder{
		e: e, backends: backends,
		known: make(map[address]*node), left: make(map[*node]time.Duration),
		asked: make(map[string]*redis.Client), look: make(chan struct{}, 1),
	}
	e.topology.Store(f.first())
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.done.Add(1)
	go f.run(ctx) // until close
	return f
}

// first is the topology before anybody was asked.
func (f *finder) first() *topology {
	t := &topology{}
	var names []string
	for _, b := range f.backends {
		n := f.node(b, b.seeds[0])
		if b.kind != oneNode {
			n = absentNode(f.e, b.seeds[0], "no answer yet to which node is the master")
		}
		t.nodes, names = append(t.nodes, n), append(names, b.name())
	}
	if f.backends[0].kind == cluster {
		t.slots = new([shard.Slots]uint16)
		return t
	}
	t.place = shard.NewNodes(names)
	return t
}

// wake has the finder look soon. f may be nil: all nodes are named.
func (f *finder) wake() {
	if f == nil {
		return
	}
	select {
	case f.look <- struct{}{}:
	default:
	}
}

// node returns the node at addr, opened if it is new; nil after close.
func (f *finder) node(b *backend, addr string) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.known[address{b, addr}]
	if n == nil && f.known != nil {
		n = openNode(f.e, b, addr)
		f.known[address{b, addr}] = n
	}
	return n
}

func (f *finder) run(ctx context.Context) {
	defer f.done.Done()
	defer func() {
		for _, client := range f.asked {
			_ = client.Close()
		}
	}()
	calm := findCalm
	if f.backends[0].kind != cluster {
		calm = findOften
	}
	retry, found := findSoon, true
	for {
		well, err := f.find(ctx)
		f.retire()
		switch {
		case err != nil && found && ctx.Err() == nil:
			f.e.config.Logger.Warn("nobody says which nodes there are", "why", why(err))
		case err == nil && !found:
			f.e.config.Logger.Warn("nodes are known again")
		}
		found = err == nil
		wait := calm
		if well {
			retry = findSoon
		} else {
			wait, retry = retry, min(2*retry, findOften)
		}
		if !f.pause(ctx, findSoon) || !f.wait(ctx, wait-findSoon) {
			return
		}
	}
}

// pause waits; it returns false when the finder is to end.
func (f *finder) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// wait is pause that a wake cuts short.
func (f *finder) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-f.look:
	case <-time.After(d):
	}
	return true
}

// find asks for the topology and puts it in place. well means that there is no
// reason to ask again soon.
func (f *finder) find(ctx context.Context) (well bool, err error) {
	now := f.e.topology.Load()
	next := &topology{place: now.place, slots: now.slots}
	well = true
	for i, b := range f.backends {
		switch b.kind {
		case oneNode:
			next.nodes = append(next.nodes, now.nodes[i])
			continue
		case sentinels:
			n := now.nodes[i]
			if addr, failure := f.master(ctx, b); failure != nil {
				err = failure
			} else if n.client == nil || addr != n.name {
				f.e.config.Logger.Warn("sentinels name the master", "master", b.master, "node", addr)
				n = f.node(b, addr)
			}
			next.nodes = append(next.nodes, n)
		case cluster:
			if err = f.cluster(ctx, b, next); err != nil {
				next.nodes, next.slots = now.nodes, now.slots
			}
		}
		for _, n := range next.nodes[i:] {
			well = well && n.health.state.Load() == 0
		}
	}
	if well = well && err == nil; !well {
		f.turn++ // whoever was asked may know less than others
	}
	f.e.topology.Store(next)
	return well, err
}

// retire closes nodes that have long been in no topology.
func (f *finder) retire() {
	now, used := f.e.elapsed(), map[*node]bool{}
	for _, n := range f.e.topology.Load().nodes {
		used[n] = true
	}
	var old []*node
	f.mu.Lock()
	for at, n := range f.known {
		since, gone := f.left[n]
		switch {
		case used[n]:
			delete(f.left, n)
		case !gone:
			f.left[n] = now
		case now-since > retireAfter:
			delete(f.left, n)
			delete(f.known, at)
			old = append(old, n)
		}
	}
	f.mu.Unlock()
	for _, n := range old {
		_ = n.close()
	}
}

// client returns a client for questions to a seed or sentinel.
func (f *finder) client(b *backend, addr string) *redis.Client {
	if c := f.asked[addr]; c != nil {
		return c
	}
	options := f.e.options(b, addr, new(links))
	options.PoolSize = 1
	if b.kind == sentinels {
		options.Username, options.Password, options.DB = b.askAs[0], b.askAs[1], 0
	}
	f.asked[addr] = redis.NewClient(options)
	return f.asked[addr]
}

// within bounds one question.
func (f *finder) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(f.e.config.Timeout, findSoon))
}

var errNobodyKnows = errors.New("nobody who was asked knows")

func (f *finder) close() error {
	f.stop()
	f.done.Wait()
	f.mu.Lock()
	known := f.known
	f.known = nil
	f.mu.Unlock()
	var errs []error
	for _, n := range known {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}
