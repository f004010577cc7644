// Package split answers requests about split keys, by the protocol of package
// lease.
//
// A request about a split key first goes to one of the key's shards, in the same
// batches as all other requests; Route chooses it (route.go, layout.go). Mostly the
// shard admits it out of what the home has lent, and this package has no more to do.
// Resolve takes requests that a shard refuses, or that the home cannot decide alone, to
// the home (group.go, resolver.go): the home decides, or names shards whose units must
// be recalled first. Requests that concern a whole key (RL.INSPECT, RL.RESET and those
// with cost 0) go to the home and the shards (whole.go). The number of shards of a key
// comes from the request, the configuration, or measured load (load.go).
//
// What this package remembers decides nothing: a proxy that knows less asks more
// often. The nodes' functions decide; the interface Nodes reaches them.
//
// Reading order: split.go (this file), route.go, layout.go, load.go, resolver.go,
// group.go, whole.go.
package split

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// leaseMs is the length of a lease, in ms, as lua/layout.lua has it.
const leaseMs = 1000

// Nodes reaches the nodes on which the shards of a key lie.
type Nodes interface {
	// Topology returns where shards lie. While nothing changes it is the same pointer.
	Topology() *backend.Topology

	// Call has the nodes run calls about one key, and returns when each has a reply
	// or a failure.
	Call(key []byte, calls []*Call)

	// Post has a node run a call about a key, and returns at once. Nobody learns what
	// came of it.
	Post(key []byte, call *Call)
}

// Call is one call of a function of the library, about one shard of a key.
type Call struct {
	Function *lua.Function
	Shard    int
	Args     [][]byte
	Sent     int64 // ms of the clock of Config.Now from which the node has its time to answer; 0: from now

	Reply   string
	Failure *Failure // why there is no reply, else nil
}

// Failure says why a node did not answer.
type Failure struct {
	Shard        int    // of the key, on the node that did not
	Why          string // in a few words
	MaybeApplied bool   // the node may have run what it was asked
}

// Request is one request that a shard or the home did not answer.
type Request struct {
	*engine.Request
	Result  *engine.Result
	Index   int           // in its pipeline
	Sent    int64         // ms of the clock of Config.Now when it was handed in
	Refusal *wire.Refusal // of the shard that was asked first; nil if none was

	// Failure says, after Resolve, that Result was not set because a node could not
	// answer.
	Failure *Failure

	resolved *sync.WaitGroup // notified when the request has its result or failure
}

// done ends the resolution of the request.
func (r *Request) done() { r.resolved.Done() }

func (r *Request) fail(f *Failure) {
	r.Failure = f
	r.done()
}

// Settings say which keys are split. Configure changes them.
type Settings struct {
	// Rules split keys over several nodes; of those that match a key the first holds.
	// A request's own SHARDS takes precedence.
	Rules []Rule

	// Threshold is how many charging calls per second, of all proxies together, one
	// node has of a key before the key is split over all nodes; 0: never. A call
	// stands for many decisions where requests come in pipelines.
	Threshold int64
}

// Config configures a Splitter.
type Config struct {
	// Patience returns the ms after which a request that is still open gets its FAIL policy,
	// because hardly any of the time to answer it is left; nil: it never does.
	Patience func() int64

	Denials *denials.Memory // what is answered without asking a node; nil: nothing
	Now     func() int64    // ms of a clock that does not step back
	Logger  *slog.Logger
}

// Splitter is what one proxy knows of split keys, and the resolutions under way. It
// is safe for concurrent use.
type Splitter struct {
	config Config
	live   atomic.Pointer[Settings] // in effect, never modified
	nodes  Nodes

	mu        sync.Mutex
	layouts   map[string]*layout       // by client key, guarded by mu
	memory    int                      // bytes that layouts take, guarded by mu
	resolvers map[resolverID]*resolver // guarded by mu

	// Suspects is above 0 if any key may be split although its requests do not say so:
	// the number of rules and of keys that are known to be split.
	Suspects atomic.Int64

	known  atomic.Int64   // len(layouts)
	byLoad atomic.Int64   // layouts that load has made
	under  sync.WaitGroup // goroutines of resolvers

	homeCalls, loans, recalls, rounds atomic.Int64 // for INFO
}

// New returns a Splitter that knows of no split key, and splits none by itself before Configure.
func New(config Config, nodes Nodes) *Splitter {
	s := &Splitter{config: config, nodes: nodes, layouts: map[string]*layout{}, resolvers: map[resolverID]*resolver{}}
	s.live.Store(new(Settings))
	return s
}

// Configure applies settings to the requests to come. A key that the new ones do not split
// goes on as its home says, which gathers what the shards hold.
func (s *Splitter) Configure(next Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.Store(&next)
	for _, l := range s.layouts {
		if l.load && next.Threshold <= 0 {
			l.load = false
			s.byLoad.Add(-1)
		}
		l.learned = l.learned || !l.load
	}
	s.count()
}

// Close waits for the resolutions under way. Nobody may wait for them any more, so
// they end.
func (s *Splitter) Close() { s.under.Wait() }

// Resolve answers requests that a shard or the home left open: afterwards each has
// its Result or its Failure. Requests about one key come in the order in which they
// were made.
func (s *Splitter) Resolve(requests []*Request) {
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

// joins reports whether r can be resolved together with other: it asks the same, and
// the same shard refused both.
func (r *Request) joins(other *Request) bool {
	return r.Op == engine.OpDecide && r.Refusal == other.Refusal && r.Repeats(other.Request)
}

// now returns the time in ms.
func (s *Splitter) now() int64 { return s.config.Now() }

// guard runs one round of work. A panic ends the round and is logged.
func (s *Splitter) guard(doing string, round func()) bool {
	return backend.Guard(s.config.Logger, doing, round)
}

// ask calls the home. Without a reply that makes sense there is a failure.
func (s *Splitter) ask(key []byte, c *Call, decode func(reply string) error) *Failure {
	s.nodes.Call(key, []*Call{c})
	if c.Failure == nil {
		if err := decode(c.Reply); err != nil {
			c.Failure = &Failure{Shard: c.Shard, Why: err.Error(), MaybeApplied: true}
		}
	}
	return c.Failure
}

// report is a shard's report, and when it was asked for.
type report struct {
	*wire.ShardReport
	sent int64 // ms of the clock of Config.Now: the report's times count from then
}

// collect sends recalls to shards, all at once, for a request that was handed in at
// since. It returns the reports, and the shards that did not answer.
func (s *Splitter) collect(key []byte, since int64, purpose wire.Purpose, recalls []lease.Recall) (reports []report, unreachable []int) {
	sent := s.now()
	calls := make([]*Call, len(recalls))
	for i := range recalls {
		calls[i] = &Call{Function: lua.Recall, Shard: recalls[i].Shard, Args: wire.RecallArgs(purpose, &recalls[i]), Sent: since}
	}
	s.recalls.Add(int64(len(calls)))
	s.nodes.Call(key, calls)
	for i, c := range calls {
		if c.Failure == nil {
			if r, err := wire.DecodeShardReport(c.Reply, &recalls[i]); err == nil {
				reports = append(reports, report{r, sent})
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
		{Name: "splits", Value: s.known.Load(), Metric: "split_keys", Help: "Keys that this proxy knows to be split over several nodes."},
		{Name: "splits_by_load", Value: s.byLoad.Load(), Metric: "split_keys_by_load", Help: "Keys that are split because of their load."},
		{Name: "split_resolvers", Value: int64(resolvers), Metric: "split_resolvers", Help: "Split keys whose home is being asked now."},
		{Name: "split_home_calls", Value: s.homeCalls.Load(), Metric: "split_home_calls_total", Help: "Calls of homes about what shards refused."},
		{Name: "split_loans", Value: s.loans.Load(), Metric: "split_loans_total", Help: "Portions of a limit that homes have lent to shards."},
		{Name: "split_rounds", Value: s.rounds.Load(), Metric: "split_recall_rounds_total", Help: "Rounds in which shards were recalled."},
		{Name: "split_recalls", Value: s.recalls.Load(), Metric: "split_recalls_total", Help: "Recalls of what shards hold."},
	}
}
