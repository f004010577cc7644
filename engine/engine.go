// Package engine is what commands and engines agree on: a Pipeline of Requests goes
// in, a Result for each comes out.
//
// There are two engines behind one interface. Package memory keeps state in this
// process. Package redis keeps it on backend nodes and runs the decision there, in
// a library of Redis Functions. Both give the same answers, because the arithmetic
// stands once, in package limit, and because package conformance holds both to the
// same model.
//
// Reading order: engine.go (this file), fail.go (what is answered when a node
// cannot), hold.go (requests with an id of their own), inspect.go (what RL.INSPECT shows), nodes.go (what RL.NODES shows), stat.go (what
// INFO and metrics show), traffic.go (what was asked of a node).
package engine

import (
	"fmt"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
)

// Engine answers pipelines. It is safe for use by many goroutines, each with a
// Pipeline of its own.
type Engine interface {
	// Do fills p.Results[i] with the answer to p.Requests[i], for every i, and
	// returns when all are there. Requests that name the same key are decided in
	// their order. Do never fails as a whole: what goes wrong with one request is
	// that request's Result.Err.
	Do(p *Pipeline)

	// Where returns the node on which the key with that name has its state, or its home if it is
	// split, as host:port or the word embedded; and the number of its shards, 1 if it is not split.
	Where(name []byte) (node string, shards int)

	// Nodes returns what RL.NODES shows: the nodes that keep the state, none if this
	// process keeps it.
	Nodes() []Node

	// Stats returns what INFO and metrics show of the engine, in order.
	Stats() []Stat

	// Close waits for requests under way and releases what the engine holds. Callers
	// of Do must have returned, and what was started must be done.
	Close() error
}

// Starter is an Engine that can answer without keeping a goroutine waiting.
type Starter interface {
	Engine

	// Start begins to answer p as Do does, and calls done once, when all results are there: on
	// any goroutine, perhaps before Start returns. done must neither block nor panic. What
	// has been started may wait for Flush.
	Start(p *Pipeline, done func())

	// Flush sends what has been started.
	Flush()
}

// Pipeline is what arrived together on one connection. A session owns one and
// uses it again and again; it is not safe for concurrent use.
type Pipeline struct {
	Requests []Request
	Results  []Result

	keys []byte // what Room has given of its current block
}

// Add appends an empty request and returns it to be filled in. The pointer holds
// until the next call of Add.
func (p *Pipeline) Add() *Request {
	if len(p.Requests) < cap(p.Requests) {
		p.Requests = p.Requests[:len(p.Requests)+1]
	} else {
		p.Requests = append(p.Requests, Request{})
	}
	r := &p.Requests[len(p.Requests)-1]
	*r = Request{}
	return r
}

// Room returns an empty slice with room for n bytes, for a key that is put together of
// several words. The bytes hold until Reset.
func (p *Pipeline) Room(n int) []byte {
	const least, most = 512, 64 << 10 // bytes of a block
	if cap(p.keys)-len(p.keys) < n {
		p.keys = make([]byte, 0, max(n, least, min(2*cap(p.keys), most))) // requests keep the block before
	}
	from := len(p.keys)
	p.keys = p.keys[:from+n]
	return p.keys[from : from : from+n]
}

// Name returns the name by which engines know a client's key, or its shadow. It holds until
// Reset, and as long as the key's bytes.
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
// it larger than an ordinary one needs.
func (p *Pipeline) Reset() {
	p.keys = p.keys[:0]
	const keep = 1024
	if cap(p.Requests) > keep {
		p.Requests, p.Results = nil, nil
		return
	}
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

// Op says what a request asks for.
type Op uint8

// The operations.
const (
	OpDecide  Op = iota // decide by the request's Spec, and its Hold if it has one
	OpReset             // RL.RESET, one key
	OpInspect           // RL.INSPECT
	OpSettle            // RL.SETTLE and, with the kind limit.Concurrency, RL.RELEASE: end the hold Hold.ID and charge Cost
	OpRenew             // RL.RENEW: let the hold Hold.ID of the kind limit.Concurrency last for Hold.TTL from now on
)

// Bounds of a request, beside those of package limit. The parser of commands
// checks them.
const (
	MaxShards = 1024 // shards per key
	MaxKey    = 4096 // bytes of a client's key
)

// MaxStates is the most states of one key: windows that can still matter, of all
// commands. They are looked through one by one.
const MaxStates = 64

// ErrStates is the error of a request that would make more. It charges nothing.
var ErrStates = fmt.Errorf("ERR too many windows on this key: at most %d", MaxStates)

// Request is one command for an engine. Byte slices alias the connection's buffer:
// they hold until Do returns, or what Start is given is called, and an engine that keeps them
// copies them.
type Request struct {
	Op  Op
	Key []byte // the name of a client's key of 1 to MaxKey bytes, or of its shadow: see Pipeline.Name

	limit.Spec // what is asked, for OpDecide

	ID     []byte // what the request is about; it chooses a shard of a split key
	Shards int    // shards asked for; 0: the request does not say
	Fail   FailPolicy

	Hold *Hold // of a request with an id of its own; else nil

	// With is set for the first request of a question about several keys (AND): so many
	// of the requests that follow belong to it. All are admitted, or none.
	With int

	// Place is the place of the key among those of a question about several, from 1; 0 in a question about one.
	// It is for the reply: requests that need not be asked together do not stand among those that are.
	Place uint8

	Policy  string  // the policy that gave the limits; empty if the command brought them
	Verdict Verdict // the answer, if the policy knows it without any state
	Shadow  bool    // Key is the name of a shadow: a decision tells the client what would be, and denies nothing
}

// Verdict is the answer to all requests about a key that a policy makes an exception of.
type Verdict uint8

// The verdicts.
const (
	VerdictNone Verdict = iota // the key's state decides
	Unlimited                  // admit, and count nothing
	Blocked                    // deny
	Unasked                    // deny, since another key of the same question is Blocked; of this one nothing is known
)

// blockedFor is the ms after which a blocked client is told to ask again.
const blockedFor = 1000

// AnswerVerdict answers a decision that needs no state, and reports whether r is one.
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

// ConcernsWholeKey reports whether the request speaks of its key as a whole: it must not
// overtake what was asked about the key before, nor be overtaken.
func (r *Request) ConcernsWholeKey() bool {
	return r.Op != OpDecide || r.Cost == 0
}

// Repeats reports whether r asks the same of the same key as s. What has an id is asked for itself.
func (r *Request) Repeats(s *Request) bool {
	return r.Op == s.Op && string(r.Key) == string(s.Key) && r.Spec == s.Spec && r.Hold == nil && s.Hold == nil
}

// Result is the answer to one request: Decision for OpDecide, else the field that
// the operation names. Err, when set, is all that counts.
type Result struct {
	limit.Decision
	Fail       FailPolicy // OpDecide: what answered in place of the key's state; FailDefault if the state did
	Remembered bool       // OpDecide: the node gave this denial a moment ago, and was not asked again
	Reset      bool       // OpReset: the key had state
	States     []State    // OpInspect
	Again      bool       // OpDecide with a Hold: the id is known, and this is its first answer
	Lapsed     int64      // holds that had lapsed by then, and were taken off by this request
	Settled    Settlement // OpSettle
	Renewed    bool       // OpRenew: the hold lasts
	Err        error
}

// Unavailable is the error of a request that its node could not answer.
type Unavailable struct {
	Node string // host:port
	Why  string // in a few words

	MaybeApplied bool // the node may have run the request all the same
}

func (e *Unavailable) Error() string {
	return "UNAVAILABLE " + e.Node + ": " + e.Why
}
