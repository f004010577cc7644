package engine

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/shard"
)

// Redis is the engine that keeps state on backend nodes. A key lives on one node,
// chosen by rendezvous hashing over the nodes' names; a decision is a script run
// there. Requests of all connections that wait for the same node go to it together.
type Redis struct {
	config   RedisConfig
	topology atomic.Pointer[topology]
	finder   *finder                       // nil if the nodes are named one by one
	nodes    []*node                       // those named one by one
	tls      atomic.Pointer[tls.Config]    // of new connections to rediss:// backends
	commands commands                      // what nodes know of ordinary commands
	replies  replyMemory                   // of forwarded replies
	local    *Embedded                     // what PolicyLocal asks
	answered [PolicyError + 1]atomic.Int64 // requests by the policy that answered them
	settle   *settler                      // hands over what it counted
	denied   denials                       // what is answered here without asking a node
	busy     *busiest                      // keys most asked about, for RL.HOTKEYS
	splits   splits
	now      func() time.Time
	opened   time.Time
	clock    func() int64 // ms that scripts take for the node's clock; nil outside of tests
}

// RedisConfig says which nodes there are and what to do when they do not answer.
type RedisConfig struct {
	// Backends are the nodes: redis://[user:password@]host:port[/db], rediss:// for
	// TLS. Their order does not matter. A node's name for placement is its lower-case
	// host:port/db, so a changed name moves keys.
	//
	// redis+sentinel://[user:password@]host:port,host:port/master[/db] is the node that
	// these sentinels call the master, its name master/db; sentinels' own user goes in
	// ?sentinel_username=&sentinel_password=. redis+cluster://[user:password@]host:port,
	// host:port is a Redis Cluster that these nodes belong to, and stands alone.
	Backends []string

	// TLS is for rediss backends.
	TLS BackendTLS

	// Timeout is how long a request waits for its node before its policy answers.
	// Default 100 ms: well above a healthy round trip, well below a client's patience.
	Timeout time.Duration

	// Policy answers for a node that does not; Rules, first match first, take
	// precedence over it and a request's own FAIL over both. Default PolicyClosed.
	Policy Policy
	Rules  []PolicyRule

	// LocalMemory bounds the state that PolicyLocal keeps here, in bytes; 0: no bound.
	LocalMemory int64

	// MaxWaiting is how many requests may wait for one node. One more gets its policy
	// at once. Default 100,000.
	MaxWaiting int

	// HotKeys splits keys over several nodes, first match first. A request's own SHARDS
	// takes precedence.
	HotKeys []HotRule

	// HotThreshold is how many charging calls per second, of all proxies together, one
	// node has of a key before the key is split over all nodes; 0: never. A call
	// stands for many decisions where requests come in pipelines.
	HotThreshold int64

	// AskAlways sends every request to its node. Otherwise a denial is remembered until
	// its retry-after has passed, at most 1 s, and the same question answered here.
	AskAlways bool

	// ForwardTimeout is how long an ordinary command waits for its node, which may be
	// at work on another one. Default 5 s. ForwardAdmin passes on those that administer
	// a node as well.
	ForwardTimeout time.Duration
	ForwardAdmin   bool

	// ReplyLimit bounds the replies to the ordinary commands of one pipeline, ReplyMemory
	// those of all pipelines, in bytes, until they are written to clients. A reply that
	// has no room is an error. Defaults 256 MiB and 1 GiB.
	ReplyLimit, ReplyMemory int64

	Logger *slog.Logger // default slog.Default()
}

// PolicyRule gives keys that match Glob (* and ?) a policy.
type PolicyRule struct {
	Glob   string
	Policy Policy
}

// Field is one line of INFO.
type Field struct{ Name, Value string }

// OpenRedis returns an engine on the nodes of the configuration. It does not wait
// for them: a node that cannot be reached is an error of its requests, not of ours.
func OpenRedis(config RedisConfig) (*Redis, error) {
	backends, err := parseBackends(config.Backends)
	if err != nil {
		return nil, err
	}
	if config.Timeout <= 0 {
		config.Timeout = 100 * time.Millisecond
	}
	if config.Policy == PolicyDefault {
		config.Policy = PolicyClosed
	}
	if config.MaxWaiting <= 0 {
		config.MaxWaiting = 100_000
	}
	if config.ForwardTimeout <= 0 {
		config.ForwardTimeout = 5 * time.Second
	}
	if config.ReplyLimit <= 0 {
		config.ReplyLimit = 256 << 20
	}
	if config.ReplyMemory <= 0 {
		config.ReplyMemory = 1 << 30
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	e := &Redis{config: config, busy: newBusiest(), now: time.Now, opened: time.Now()}
	e.replies.each, e.replies.total = config.ReplyLimit, config.ReplyMemory
	e.splits = splits{engine: e, layouts: map[string]*layout{}, flights: map[flightKey]*flight{}}
	if err := e.SetBackendTLS(config.TLS); err != nil {
		return nil, err
	}
	e.local = NewEmbedded(EmbeddedConfig{MaxMemory: config.LocalMemory, Policy: PolicyClosed})
	e.settle = newSettler(e)
	for _, b := range backends {
		if b.kind != oneNode {
			e.finder = openFinder(e, backends)
			e.settle.open()
			return e, nil
		}
	}
	var names []string
	for _, b := range backends {
		e.nodes, names = append(e.nodes, openNode(e, b, b.seeds[0])), append(names, b.name())
	}
	e.topology.Store(&topology{nodes: e.nodes, place: shard.NewNodes(names)})
	e.settle.open()
	return e, nil
}

// Do implements Engine.
func (e *Redis) Do(p *Pipeline) {
	p.grow()
	p.mixed = mixed(p.Requests)
	for from := 0; from < len(p.Requests); {
		from = e.do(p, from, e.run(p, from))
	}
	e.busy.observe(p)
}

// do answers the requests of a run, and returns where it ended: maybe sooner than asked.
func (e *Redis) do(p *Pipeline, from, to int) int {
	at, ask := e.elapsed(), 0
	clear(p.ways)
	top := e.topology.Load()
	if len(p.groups) < len(top.nodes) {
		p.groups = make([][]item, len(top.nodes))
	}
	denied := -1 // the last request that was answered from memory
	for i := from; i < to; i++ {
		r := &p.Requests[i]
		if r.Op == OpForward {
			ask += e.forward(p, top, i, at)
			continue
		}
		if denied >= 0 && denied == i-1 && r.repeats(&p.Requests[denied]) {
			p.Results[i].Decision = p.Results[denied].Decision
			e.denied.answers.Add(1)
			denied = i
			continue
		}
		if r.Op != OpReset && !e.config.AskAlways && e.denied.answer(r, at.Milliseconds(), &p.Results[i]) {
			denied = i
			continue
		}
		way, ok := e.splits.way(p, i, top, at.Milliseconds())
		if !ok {
			to = i
			break
		}
		if r.Op == OpReset {
			e.denied.forget(r.Key)
			e.local.reset(e.local.clock(), r.Key)
		}
		ask++
		it := item{req: r, res: &p.Results[i], wait: &p.wait, at: at, part: way.part}
		if way.parked {
			p.parked = append(p.parked, it)
			continue
		}
		node := top.locate(r.Key, it.part)
		p.groups[node] = append(p.groups[node], it)
	}
	if ask > 0 {
		p.wait.expect(ask)
	}
	for i := range p.parked {
		e.splits.join(newParty([]item{p.parked[i]}, nil))
	}
	clear(p.parked)
	p.parked = p.parked[:0]
	p.forwards.submit(top)
	left := 0
	for _, items := range p.groups {
		left += len(items)
	}
	for node, items := range p.groups {
		switch {
		case len(items) == 0:
			continue
		case len(items) == left: // the last
			top.nodes[node].ask(items)
		default:
			top.nodes[node].submit(items)
		}
		left -= len(items)
		clear(items)
		p.groups[node] = items[:0]
	}
	if ask > 0 {
		p.wait.wait()
	}
	p.forwards.merge(p.Results)
	return to
}

// elapsed is the engine's own clock: the time since it was opened, which no change
// of the machine's clock moves.
func (e *Redis) elapsed() time.Duration { return e.now().Sub(e.opened) }

// Close implements Engine. Callers of Do have to have returned.
func (e *Redis) Close() error {
	e.splits.under.Wait() // nobody waits for them any more: they end
	var errs []error
	e.settle.close()
	if e.finder != nil {
		errs = append(errs, e.finder.close())
	}
	for _, n := range e.nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(append(errs, e.local.Close())...)
}

// Info tells how the nodes are, a line each.
func (e *Redis) Info() []Field {
	nodes := e.topology.Load().nodes
	fields := []Field{
		{"engine", "redis"},
		{"nodes", strconv.Itoa(len(nodes))},
		{"denials_remembered", strconv.FormatInt(e.denied.kept.Load(), 10)},
		{"denials_answered", strconv.FormatInt(e.denied.answers.Load(), 10)},
	}
	for policy, name := range policyNames {
		if name != "" {
			fields = append(fields, Field{"answered_" + name, strconv.FormatInt(e.answered[policy].Load(), 10)})
		}
	}
	fields = append(fields, e.settle.info()...)
	fields = append(fields, e.splits.info()...)
	for i, n := range nodes {
		fields = append(fields, Field{"node" + strconv.Itoa(i), n.stats.line(n)})
	}
	return fields
}
