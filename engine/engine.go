// Package engine is what commands and engines agree on: a Pipeline of Requests goes
// in, a Result for each comes out.
//
// There are two engines behind one interface. Package memory keeps state in this
// process. Package redis keeps it on backend nodes and runs the decision there, in
// a library of Redis Functions. Both give the same answers: they share the arithmetic of
// package limit, and package conformance compares both with the same model.
//
// Reading order: engine.go (this file), fail.go (FAIL policies, which answer in place
// of a node), faillog.go (when such answers are logged), hold.go (requests with an id),
// inspect.go (for RL.INSPECT), nodes.go (for RL.NODES), stat.go (for INFO and metrics),
// traffic.go (what was sent to a node).
package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
)

// Engine answers pipelines. It is safe for use by many goroutines, each with a
// Pipeline of its own.
type Engine interface {
	// Do fills p.Results[i] with the answer to p.Requests[i], for every i, and
	// returns when all are set. Requests that name the same key are decided in
	// their order. Do never fails as a whole: a request that fails has its error in
	// Result.Err.
	Do(p *Pipeline)

	// Where returns the node on which the key with that name has its state, or its home if it is
	// split, as host:port or the word embedded; and the number of its shards, 1 if it is not split.
	Where(name []byte) (node string, shards int)

	// Nodes returns what RL.NODES shows: the nodes that keep the state, none if this
	// process keeps it.
	Nodes() []NodeInfo

	// Stats returns what INFO and metrics show of the engine, in order.
	Stats() []Stat

	// Close waits for requests under way and releases what the engine holds. Callers
	// of Do must have returned, and what was started must be done.
	Close() error
}

// Starter is an Engine that can answer without keeping a goroutine waiting.
type Starter interface {
	Engine

	// Start begins to answer p as Do does, and calls done once, when all results are set: on
	// any goroutine, possibly before Start returns. done must neither block nor panic.
	// Requests may be held back until Flush.
	Start(p *Pipeline, done func())

	// Flush sends the requests that Start has held back.
	Flush()
}

// A KeyLister lists the keys that have state.
type KeyLister interface {
	// Scan visits some `visits` stored keys from a cursor on, and calls found with the names of keys that have state
	// there, which are valid until it returns. It returns the next cursor. The first and the last one are "0". A name
	// that has state during a whole scan is found at least once. The error is ErrCursor, ErrMoved or an *Unavailable.
	Scan(cursor string, visits int, found func(name []byte)) (next string, err error)
}

// ErrCursor is the error of a cursor that no Scan has returned, ErrMoved of one that may have missed keys.
var (
	ErrCursor = errors.New("ERR invalid cursor")
	ErrMoved  = errors.New("ERR slots of the cluster have moved since the scan began: begin again")
)

// Freer is an Engine that says when a key has room earlier than its denials have said.
type Freer interface {
	// OnFreed has freed called when a key is reset, and when a lease of a key is released that a request with Block was
	// denied for; with nil, when such messages may have been lost. It must not block, nor call the engine. OnFreed is
	// called once, before the first request.
	OnFreed(freed func(key []byte))
}

// Pipeline is the requests that arrived together on one connection. A session owns one
// and reuses it; it is not safe for concurrent use.
type Pipeline struct {
	Requests []Request
	Results  []Result

	keys []byte // what Room has given of its current block
}

// Add appends an empty request and returns it to be filled in. The pointer is valid
// until the next call of Add.
func (p *Pipeline) Add() *Request {
	if len(p.Requests) < cap(p.Requests) {
		p.Requests = p.Requests[:len(p.Requests)+1] // it is empty: what is dropped is cleared
	} else {
		p.Requests = append(p.Requests, Request{})
	}
	return &p.Requests[len(p.Requests)-1]
}

// Truncate drops the requests from index n on, and with them what they keep in memory: their
// keys are part of a connection's buffer, which may be large.
func (p *Pipeline) Truncate(n int) {
	clear(p.Requests[n:])
	p.Requests = p.Requests[:n]
}

// Room returns an empty slice with room for n bytes, for a key that is composed of
// several words. It is valid until Reset.
func (p *Pipeline) Room(n int) []byte {
	const least, most = 512, 64 << 10 // bytes of a block
	if cap(p.keys)-len(p.keys) < n {
		p.keys = make([]byte, 0, max(n, least, min(2*cap(p.keys), most))) // requests keep the block before
	}
	from := len(p.keys)
	p.keys = p.keys[:from+n]
	return p.keys[from : from : from+n]
}

// Name returns the name by which engines identify a client's key, or its shadow. It is valid
// until Reset, and while the key's bytes are.
func (p *Pipeline) Name(key []byte, shadow bool) []byte {
	if shadow || len(key) >= shard.Mark && key[len(key)-shard.Mark] == shard.MarkByte {
		return p.name(key, shadow)
	}
	return key // without a call, for nearly all keys
}

// name is Name for a shadow, and for a key that may end in a mark.
func (p *Pipeline) name(key []byte, shadow bool) []byte {
	return shard.AppendName(p.Room(len(key)+shard.Mark), key, shadow)
}

// AddBoth adds a request about a client's key, and then the same one about its shadow.
func (p *Pipeline) AddBoth(op Op, key []byte) {
	for _, shadow := range [...]bool{false, true} {
		r := p.Add()
		r.Op, r.Key, r.Shadow = op, p.Name(key, shadow), shadow
	}
}

// Reset empties the pipeline and keeps its memory, unless a large pipeline made
// it larger than most need.
func (p *Pipeline) Reset() {
	p.keys = p.keys[:0]
	const keep = 1024
	if cap(p.Requests) > keep {
		p.Requests, p.Results = nil, nil
		return
	}
	clear(p.Requests) // see Truncate
	clear(p.Results)
	p.Requests, p.Results = p.Requests[:0], p.Results[:0]
}

// Grow makes room for one empty result per request. Engines call it first.
func (p *Pipeline) Grow() {
	if cap(p.Results) < len(p.Requests) {
		p.Results = make([]Result, len(p.Requests), cap(p.Requests))
		return
	}
	p.Results = p.Results[:len(p.Requests)]
	clear(p.Results)
}

// Op is the operation that a request asks for.
type Op uint8

// The operations.
const (
	OpDecide  Op = iota // decide by the request's Spec, and its Hold if it has one
	OpReset             // RL.RESET, one key
	OpInspect           // RL.INSPECT
	// RL.SETTLE and, with the kind limit.Concurrency, RL.RELEASE: end the hold Hold.ID and charge Cost
	OpSettle
	OpRenew // RL.RENEW: extend the hold Hold.ID of the kind limit.Concurrency to Hold.TTL from now
)

// Bounds of a request, in addition to those of package limit. The parser of commands
// checks them.
const (
	MaxShards = 1024 // shards per key
	MaxKey    = 4096 // bytes of a client's key
)

// MaxStates is the most states of one key: windows that can still matter, of all
// commands. They are searched one by one.
const MaxStates = 64

// ErrStates is the error of a request that would exceed MaxStates. It charges nothing.
var ErrStates = fmt.Errorf("ERR too many windows on this key: at most %d", MaxStates)

// Request is one command for an engine. Byte slices alias the connection's buffer: they
// are valid until Do returns, or Start calls done, and an engine that keeps them copies
// them.
type Request struct {
	Op  Op
	Key []byte // the name of a client's key of 1 to MaxKey bytes, or of its shadow: see Pipeline.Name

	limit.Spec // the limits, windows and cost, for OpDecide

	ID     []byte     // the request's id, or its option ID; it chooses a shard of a split key
	Shards int        // shards asked for; 0 if the request has no SHARDS
	Fail   FailPolicy // the request's own FAIL policy, or FailDefault

	Hold *Hold // for a request with an id; else nil

	// MoreKeys is the number of following requests that belong to the same multi-key request (AND).
	// It is set on the first of them. Either all are admitted or none is. No two of them name the same key.
	MoreKeys int

	// KeyNumber is the position of the key in a multi-key request, from 1; 0 in other requests. The
	// reply needs it: keys that need not be decided together with the others are moved behind them.
	KeyNumber uint8

	// Block is the ms for which the client waits to be admitted instead of getting a denial (BLOCK); 0: it does not. A
	// node that denies an RL.ACQUIRE with Block tells the proxies when the key's next lease is released, see OnFreed.
	Block int64
	// Confirm returns how many of the units of a request about one key, which has no Hold, are still wanted; nil: all.
	// An engine that asks nodes holds the units first, calls Confirm once, and charges only what it returns. If that is
	// 0, the request is denied.
	Confirm func() int64

	Policy   string          // the policy that gave the limits; empty if the command had them
	Override *OverrideCounts // counts what is decided by the override that the key has; nil: it has none
	Verdict  Verdict         // the answer, if the policy has one that needs no state
	Shadow   bool            // Key is the name of a shadow: a decision reports what would happen, and denies nothing
	Details  bool            // the reply has more than five integers
}

// OverrideCounts counts decisions by an override, except for those with SHADOW. It is safe for concurrent use.
type OverrideCounts struct{ Decisions, TurnedAway atomic.Int64 }

// Verdict is the answer to all requests about a key for which a policy makes an exception.
type Verdict uint8

// The verdicts.
const (
	VerdictNone Verdict = iota // the key's state decides
	Unlimited                  // admit, and count nothing
	Blocked                    // deny
	Unasked                    // deny without asking: another key of the same multi-key request is Blocked
)

// blockedFor is the retry_after of a blocked client, in ms.
const blockedFor = 1000

// AnswerVerdict answers r from its policy's verdict, if there is one, and reports whether it did.
func (r *Request) AnswerVerdict(res *Result) bool {
	switch r.Verdict {
	case Unlimited:
		res.Decision = limit.Decision{Allowed: true}
	case Blocked:
		res.Decision = limit.Decision{RetryAfter: blockedFor, ResetAfter: blockedFor}
	case Unasked:
		res.Decision = limit.Decision{Limit: r.Windows[0].Limit}
	}
	return r.Verdict != VerdictNone
}

// ConcernsWholeKey reports whether the request reads or changes all of its key's state,
// so that it must keep its position among the requests for that key.
func (r *Request) ConcernsWholeKey() bool {
	return r.Op != OpDecide || r.Cost == 0
}

// Repeats reports whether r is the same request as s: the same operation, key and spec.
// Requests with an id never repeat each other.
func (r *Request) Repeats(s *Request) bool {
	return r.Op == s.Op && string(r.Key) == string(s.Key) && r.Spec == s.Spec && r.Hold == nil && s.Hold == nil
}

// Result is the answer to one request: Decision for OpDecide, else the field that names
// the operation. If Err is set, the other fields mean nothing.
type Result struct {
	limit.Decision
	Fail       FailPolicy   // OpDecide: what answered in place of the key's state; FailDefault if the state did
	Remembered bool         // OpDecide: a denial that was answered from memory, without asking the node again
	Drawn      bool         // OpDecide: admitted from an advance, in this proxy
	Reset      bool         // OpReset: the key had state
	States     []Inspection // OpInspect
	Again      bool         // OpDecide with a Hold: the id is known, and this repeats its first answer
	Clock      int64        // OpDecide with a Hold: the clock by which its node decided, in ms
	Lapsed     int64        // holds that had lapsed and that this request removed
	Settled    Settlement   // OpSettle
	Renewed    bool         // OpRenew: the hold was extended

	// Err is ErrStates, one of the errors of ids in hold.go, an *Unavailable, or the text that a node gives for a
	// key whose stored record it cannot use. Its text is the client's reply.
	Err error
}

// Wrote reports whether the result, of a request of that cost, says that its node has changed the key's state.
func (res *Result) Wrote(cost int64) bool {
	return res.Fail == FailDefault && res.Err == nil &&
		(res.Allowed && cost > 0 || res.Reset || res.Renewed || res.Settled != (Settlement{}))
}

// Unavailable is the error of a request that its node could not answer.
type Unavailable struct {
	Node string // host:port
	Why  string // in a few words

	MaybeApplied bool // the node may have run the request nevertheless
}

func (e *Unavailable) Error() string {
	return "UNAVAILABLE " + e.Node + ": " + e.Why
}

// Misdated is the error of a request whose calendar windows were not those of its node's time. It has charged nothing.
// Package calendar asks again.
type Misdated struct {
	Now int64 // ms by which the node decides
}

func (e *Misdated) Error() string {
	return "UNAVAILABLE: the date of the key's node changed each time it was asked; its clock showed " +
		time.UnixMilli(e.Now).UTC().Format(time.RFC3339)
}
