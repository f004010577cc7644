// Package split answers requests about split keys, by the protocol of package lease.
//
// A request about a split key first goes to one of the key's shards, in the same batches as all other requests. Route
// chooses the shard (route.go, spread.go). Usually the shard admits the request out of what the home has lent, and this
// package has nothing more to do. Resolve takes requests that a shard refuses, or that the home cannot decide alone, to
// the home (group.go, resolver.go). The home decides them, or names shards whose units must be recalled first. Requests
// that concern a whole key (RL.INSPECT, RL.RESET and those with cost 0) go to the home and the shards (whole.go). The
// number of shards of a key comes from the request, the configuration, or measured load (load.go).
//
// Decisions are made by the functions on the nodes, which the interface Nodes calls. They do not depend on what this
// package remembers: a proxy that knows less only makes more calls.
//
// Reading order: split.go (this file), route.go, spread.go, load.go, resolver.go, group.go, whole.go.
package split

import (
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// leaseMs is the length of a lease in ms. lua/lease.lua has the same number.
const leaseMs = 1000

// Nodes calls the nodes that have the shards of a key.
type Nodes interface {
	// Topology returns the placement of shards on nodes. While nothing changes it returns the same pointer.
	Topology() *backend.Topology

	// Call runs calls about one key on the nodes, and returns when each call has its Reply or its Failure.
	Call(key []byte, calls []*Call)

	// Post starts a call about a key on a node, and returns at once. Its result is not reported.
	Post(key []byte, call *Call)
}

// Call is one call of a function of the library, about one shard of a key.
type Call struct {
	Function *lua.Function // the function to call
	Shard    int           // number of the shard; 0 is the home
	Args     [][]byte      // arguments of the function, see package wire
	Sent     int64         // time from which the node's time to answer counts, in ms of Config.Now; 0: now
	IDs      bool          // the function uses the ids of the key, too

	Reply   string   // the function's reply, if Failure is nil
	Failure *Failure // why there is no reply; nil if there is one
}

// Failure says why a node did not answer.
type Failure struct {
	Shard        int    // number of the shard whose node did not answer
	Why          string // the reason in a few words
	MaybeApplied bool   // the node may have executed the call
}

// Request is one request that a shard or the home left open.
type Request struct {
	*engine.Request
	Result  *engine.Result // the result to set
	Index   int            // index of the request in its pipeline
	Sent    int64          // when the engine got the request, in ms of Config.Now
	Refusal *wire.Refusal  // the refusal of the shard that was asked first; nil if none was asked

	// Failure is set by Resolve if a node could not answer. Then Result is not set.
	Failure *Failure

	resolved *sync.WaitGroup // notified when the request has its result or failure
}

// done ends the resolution of the request.
func (r *Request) done() { r.resolved.Done() }

// fail ends the resolution of the request with a failure.
func (r *Request) fail(f *Failure) {
	r.Failure = f
	r.done()
}

// Settings say which keys are split. Configure changes them.
type Settings struct {
	// Rules split keys over several nodes. The first rule that matches a key applies. A
	// request's own SHARDS takes precedence.
	Rules []Rule

	// Threshold is the rate of charging calls per second about one key on one node, from all proxies together, at which
	// the key is split over all nodes; 0: never. If requests are pipelined, one call may decide many of them.
	Threshold int64
}

// Config configures a Splitter.
type Config struct {
	// Patience returns the ms after which a request that is still open fails, because hardly
	// any of the time to answer it is left; nil: requests never fail for that reason.
	Patience func() int64

	Denials *denials.Cache // remembered denials, which are answered without a call; nil: none
	Now     func() int64   // returns the time in ms, by a clock that does not step back
	Logger  *slog.Logger
}

// Splitter keeps what one proxy knows about split keys, and resolves requests about them. It is
// safe for concurrent use.
type Splitter struct {
	config Config
	live   atomic.Pointer[Settings] // the settings in effect; never modified
	nodes  Nodes

	mu        sync.Mutex
	spreads   map[string]*spread       // known spreads by the key's name; guarded by mu
	memory    int                      // approximate bytes of all spreads; guarded by mu
	swept     int64                    // when spreads were last swept, in ms of Config.Now; guarded by mu
	resolvers map[resolverID]*resolver // resolvers that are running; guarded by mu

	// PossiblySplit is above 0 if any key may be split although its requests do not say so:
	// the number of rules and of keys that are known to be split.
	PossiblySplit atomic.Int64

	// HotRate is the Threshold, or more than any rate: answers with a lower one need not be observed.
	HotRate atomic.Int64

	known  atomic.Int64 // len(spreads)
	byLoad atomic.Int64 // spreads of keys that are split because of their load

	running sync.WaitGroup // goroutines that resolve requests

	homeCalls, loans, recalls, rounds atomic.Int64 // for INFO
}

// New returns a Splitter that knows no split key. Before Configure it splits keys only if a request has SHARDS.
func New(config Config, nodes Nodes) *Splitter {
	s := &Splitter{config: config, nodes: nodes, spreads: map[string]*spread{}, resolvers: map[resolverID]*resolver{}}
	s.live.Store(new(Settings))
	return s
}

// Configure changes the settings for later requests. If they no longer split a key, requests
// about it go to its home, which recalls what the shards hold when it needs it.
func (s *Splitter) Configure(next Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.Store(&next)
	if s.HotRate.Store(next.Threshold); next.Threshold <= 0 {
		s.HotRate.Store(math.MaxInt64)
	}
	for _, l := range s.spreads {
		if l.load && next.Threshold <= 0 {
			l.load = false
			s.byLoad.Add(-1)
		}
		l.learned = l.learned || !l.load
	}
	s.count()
}

// Close waits until all resolutions have ended. Resolve must not be called afterwards.
func (s *Splitter) Close() { s.running.Wait() }

// Resolve answers requests that a shard or the home left open. When it returns, each has its
// Result or its Failure. Requests about one key must be in the order in which they were made.
func (s *Splitter) Resolve(requests []*Request) {
	for len(requests) > 0 {
		n := together(requests)
		s.resolve(requests[:n])
		requests = requests[n:]
	}
}

// together returns how many of the requests, from the first on, can be resolved at the same time.
// One that concerns a whole key has to wait for earlier ones about the key, and later ones for it.
func together(requests []*Request) int {
	if !slices.ContainsFunc(requests, func(r *Request) bool { return r.ConcernsWholeKey() }) {
		return len(requests)
	}
	firsts := make(map[string]*Request)
	for i, r := range requests {
		first := firsts[string(r.Key)]
		if first == nil {
			firsts[string(r.Key)] = r
		} else if (r.ConcernsWholeKey() || first.ConcernsWholeKey()) && !r.Repeats(first.Request) {
			return i
		}
	}
	return len(requests)
}

// resolve answers requests that can be resolved at the same time.
func (s *Splitter) resolve(requests []*Request) {
	var resolved sync.WaitGroup
	resolved.Add(len(requests))
	for _, r := range requests {
		r.resolved = &resolved
	}
	for len(requests) > 0 {
		n := 1
		for n < len(requests) && requests[n].joins(requests[0]) {
			n++
		}
		if requests[0].ConcernsWholeKey() {
			s.readWhole(requests[:n])
		} else {
			s.join(newGroup(requests[:n:n], requests[0].Refusal)) // combine appends to it
		}
		requests = requests[n:]
	}
	resolved.Wait()
}

// joins reports whether r can be resolved together with other: the requests are equal, and one refusal is for both.
func (r *Request) joins(other *Request) bool {
	return r.Op == engine.OpDecide && r.Refusal == other.Refusal && r.Repeats(other.Request)
}

// now returns the time in ms of Config.Now.
func (s *Splitter) now() int64 { return s.config.Now() }

// guard runs one round of work. A panic ends the round and is logged.
func (s *Splitter) guard(doing string, round func()) bool {
	return backend.Guard(s.config.Logger, doing, round)
}

// ask makes a call to the home and decodes the reply. It returns a failure if there is no reply,
// or decode returns an error.
func (s *Splitter) ask(key []byte, c *Call, decode func(reply string) error) *Failure {
	s.nodes.Call(key, []*Call{c})
	if c.Failure == nil {
		if err := decode(c.Reply); err != nil {
			c.Failure = &Failure{Shard: c.Shard, Why: err.Error(), MaybeApplied: true}
		}
	}
	return c.Failure
}

// timedReport is a shard's report.
type timedReport struct {
	*wire.ShardReport
	sent int64 // when the report was requested, in ms of Config.Now; its times count from then
}

// collect sends each recall to its shard as such an order, in parallel. since is when the time to answer them began. It
// returns the reports, and the shards that did not answer.
func (s *Splitter) collect(
	key []byte, since int64, order wire.ShardOrder, recalls []lease.Recall,
) (reports []timedReport, unreachable []int) {
	sent := s.now()
	calls := make([]*Call, len(recalls))
	for i := range recalls {
		order.Recall = recalls[i]
		calls[i] = &Call{Function: lua.Recall, Shard: recalls[i].Shard, Args: wire.Args(&order), Sent: since}
	}
	s.recalls.Add(int64(len(calls)))
	s.nodes.Call(key, calls)
	for i, c := range calls {
		if c.Failure == nil {
			if r, err := wire.DecodeShardReport(c.Reply, &recalls[i]); err == nil {
				reports = append(reports, timedReport{r, sent})
				continue
			}
		}
		unreachable = append(unreachable, c.Shard)
	}
	return reports, unreachable
}

// Stats returns what INFO and metrics show of split keys.
func (s *Splitter) Stats() []engine.Stat {
	s.mu.Lock()
	resolvers := len(s.resolvers)
	s.mu.Unlock()
	return []engine.Stat{
		{Name: "splits", Value: s.known.Load(), Metric: "split_keys",
			Help: "Keys that this proxy knows to be split over several nodes."},
		{Name: "splits_by_load", Value: s.byLoad.Load(), Metric: "split_keys_by_load",
			Help: "Keys that are split because of their load."},
		{Name: "split_resolvers", Value: int64(resolvers), Metric: "split_resolvers",
			Help: "Split keys whose home is being asked now."},
		{Name: "split_home_calls", Value: s.homeCalls.Load(), Metric: "split_home_calls_total",
			Help: "Calls of homes about what shards refused."},
		{Name: "split_loans", Value: s.loans.Load(), Metric: "split_loans_total",
			Help: "Portions of a limit that homes have lent to shards."},
		{Name: "split_rounds", Value: s.rounds.Load(), Metric: "split_recall_rounds_total",
			Help: "Rounds in which shards were recalled."},
		{Name: "split_recalls", Value: s.recalls.Load(), Metric: "split_recalls_total",
			Help: "Recalls of what shards hold."},
	}
}
