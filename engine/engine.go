// Package engine decides. It takes the requests of a pipeline, finds each one's
// state, admits or denies, and hands the decisions back by index.
//
// There are two engines behind one interface. The embedded engine keeps state in
// this process's memory. The Redis engine keeps it on backend nodes and runs the
// decision there, in a script. Both give the same answers: the arithmetic that
// turns a window's use into a reply stands once, in decision.go and window.go.
//
// Reading order: engine.go (this file), decision.go, window.go, then embedded.go
// or redis.go.
package engine

import "fmt"

// Engine answers pipelines. It is safe for use by many goroutines, each with a
// Pipeline of its own.
type Engine interface {
	// Do fills p.Results[i] with the answer to p.Requests[i], for every i, and
	// returns when all are there. Requests that name the same key are decided in
	// their order. Do never fails as a whole: what goes wrong with one request is
	// that request's Result.Err.
	Do(p *Pipeline)

	// Close waits for requests under way and releases what the engine holds.
	Close() error
}

// Pipeline is what arrived together on one connection. A session owns one and
// uses it again and again; it is not safe for concurrent use.
type Pipeline struct {
	Requests []Request
	Results  []Result

	// Of the Redis engine: what still has to be answered, and the requests by node.
	wait     waiter
	groups   [][]item
	forwards forwards
	mixed    bool           // there are decisions and ordinary commands
	parked   []item         // that join what is under way for a split key
	ways     map[uint64]way // of a run's requests about split keys, by hash of the key
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

// Reset empties the pipeline and keeps its memory, unless a large pipeline made
// it larger than an ordinary one needs.
func (p *Pipeline) Reset() {
	const keep = 1024
	p.wait.memory.release()
	if cap(p.Requests) > keep {
		p.Requests, p.Results, p.ways = nil, nil, nil
		return
	}
	clear(p.Results)
	p.Requests, p.Results = p.Requests[:0], p.Results[:0]
}

// grow makes room for one empty result per request.
func (p *Pipeline) grow() {
	if cap(p.Results) < len(p.Requests) {
		p.Results = make([]Result, len(p.Requests), cap(p.Requests))
		return
	}
	p.Results = p.Results[:len(p.Requests)]
	clear(p.Results)
}

// Op says what a request asks for.
type Op uint8

// The operations. Slide to Throttle are decisions.
const (
	OpSlide    Op = iota + 1 // RL.SLIDE
	OpCounter                // RL.COUNTER
	OpFixed                  // RL.FIXED
	OpThrottle               // CL.THROTTLE
	OpReset                  // RL.RESET, one key
	OpInspect                // RL.INSPECT
	OpForward                // an ordinary command, sent to its key's node as it came
)

// String returns the operation's command name, in upper case.
func (o Op) String() string {
	switch o {
	case OpSlide:
		return "RL.SLIDE"
	case OpCounter:
		return "RL.COUNTER"
	case OpFixed:
		return "RL.FIXED"
	case OpThrottle:
		return "CL.THROTTLE"
	case OpReset:
		return "RL.RESET"
	case OpInspect:
		return "RL.INSPECT"
	case OpForward:
		return "forward"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Bounds of the contract, checked by the parser of commands before a request is
// made. Scripts and engines rely on them: products and sums stay exact.
const (
	MaxLimit   = 1_000_000_000_000      // most cost per window
	MaxWindow  = 366 * 24 * 3600 * 1000 // ms
	MaxWindows = 8                      // pairs in one request
	MaxBuckets = 1000                   // sub-windows per window
	MaxParts   = 1024                   // sub-shards per key
	MaxKey     = 4096                   // bytes
)

// Window is one limit over one length of time.
type Window struct {
	Limit  int64 // most cost admitted per window, 1 to MaxLimit
	Length int64 // ms, 1 to MaxWindow
}

// Request is one command for the engine. Byte slices alias the connection's
// buffer: they hold until Do returns, and an engine that keeps them copies them.
type Request struct {
	Op      Op
	Key     []byte             // the client's key, 1 to MaxKey bytes
	Windows [MaxWindows]Window // the pairs, in the order given; N of them
	N       int
	Cost    int64 // 0 asks without charging
	Buckets int64 // sub-windows per window, for OpCounter; 1 otherwise
	Strict  bool  // count the oldest sub-window in full, for OpCounter
	ID      []byte
	Shards  int // sub-shards asked for; 0: not said
	Fail    Policy

	Throttle Throttle // OpThrottle: the rate; Cost is the quantity, Windows are empty

	Args  [][]byte // OpForward: the whole command
	RESP3 bool     // OpForward: the protocol of the reply
}

// Throttle is the rate of an OpThrottle request: Burst+1 units at once, refilled by
// Count units in each Period. The parser has checked that the interval between
// units, Period/Count, is at least 1 ns and that it fits in an int64 of ns when
// multiplied by Burst+1 or by Cost.
//
// The Decision has the limit Burst+1. Times are in ms cut to whole ones, not rounded
// up: the reply makes whole seconds of them, up where a part of 1 ms is left.
// RetryAfter is -1 when the cost is larger than the limit, so that waiting never
// helps, and may be 0 in a denial that is less than 1 ms long.
type Throttle struct {
	Burst  int64 // 0 or more
	Count  int64 // 1 or more
	Period int64 // seconds, 1 or more
}

// ask is the cost that a decision speaks of: a question without cost asks for 1.
func (r *Request) ask() int64 {
	return max(r.Cost, 1)
}

// Policy is what to answer when a key's node cannot answer in time.
type Policy uint8

// The policies. PolicyDefault is the configuration's choice.
const (
	PolicyDefault Policy = iota
	PolicyClosed         // deny until the node's next probe
	PolicyOpen           // admit
	PolicyLocal          // ask the embedded engine
	PolicyError          // the error UNAVAILABLE
)

// Result is the answer to one request: Decision for the decisions, else the
// field that the operation names. Err, when set, is all that counts.
type Result struct {
	Decision
	Reset  bool    // OpReset: the key had state
	States []State // OpInspect
	Raw    []byte  // OpForward: the node's reply as it came
	Err    error
}

// Decision is the answer to one rate-limit request. A denial is a decision, not
// an error.
type Decision struct {
	Allowed    bool
	Limit      int64 // the limit that the other fields speak of
	Remaining  int64 // cost still admitted now; -1: answered by a policy
	RetryAfter int64 // ms; 0 when allowed
	ResetAfter int64 // ms until nothing is used; 0 if nothing is
}

// State is what RL.INSPECT tells of one state of a key.
type State struct {
	Op        Op
	Window    int64 // ms
	Buckets   int64
	Used      int64 // cost that counts now
	Limit     int64 // as last charged
	Remaining int64 // of that limit
	Node      string
	TTL       int64 // ms until the stored key ends
	Rate      int64 // charging calls per second, over the last second
	Parts     []Part
}

// Part is what RL.INSPECT tells of one sub-shard of a split key.
type Part struct {
	Part  int
	Node  string
	Held  int64 // units it may admit
	Used  int64 // units it admitted
	Lease int64 // ms until its lease ends
}

// Unavailable is the error of a request that its node could not answer.
type Unavailable struct {
	Node string // host:port
	Why  string
}

func (e *Unavailable) Error() string {
	return "UNAVAILABLE " + e.Node + ": " + e.Why
}
