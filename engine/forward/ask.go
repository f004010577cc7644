package forward

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// nodeReply is a node's reply to a query.
type nodeReply struct {
	node  *backend.Node
	array []any
	err   error
}

// refused reports whether the node has replied that the query is wrong. All other errors say something about the node.
func (r *nodeReply) refused() bool {
	return backend.IsReply(r.err) && strings.HasPrefix(r.err.Error(), "ERR ")
}

// ask sends a query that all nodes answer alike, and returns the reply of one of them. It asks one after the other,
// beginning with the node that answered last, and waits for the last one until passthrough-timeout has passed, and for
// each of the others an eighth of it. If no node answers, p does not wait for the last one again.
func (f *Forwarder) ask(p *Pipeline, words ...any) (nodeReply, error) {
	v := f.lanes()
	first := max(0, slices.Index(v.Nodes, f.answered.Load()))
	var err error  // of the first node; it is returned if the others fail, too
	var able []int // the others, as indices in the topology
	for i := range v.Nodes {
		at := (first + i) % len(v.Nodes)
		if why := p.unable(v.Nodes[at]); why == "" {
			able = append(able, at)
		} else if i == 0 {
			err = unavailable(v.Nodes[at], why)
		}
	}
	timeout := f.live.Load().Timeout
	deadline := time.Now().Add(timeout)
	for i, at := range able {
		by, last := time.Now().Add(timeout/8), i == len(able)-1
		if last {
			by = deadline
		}
		r := v.Queues[at][resp2].ask(by, words)
		if r.err == nil || r.refused() {
			f.answered.Store(r.node)
			return r, nil
		}
		failure := unavailable(r.node, backend.Reason(r.err))
		err = cmp.Or(err, failure)
		if last {
			p.noteSilence(failure)
		}
	}
	return nodeReply{}, err
}

// ask sends a query without queuing it.
func (q *queue) ask(by time.Time, words []any) nodeReply {
	r := nodeReply{node: q.node}
	if err := q.open(); err != nil {
		r.err = backend.Reply(err.Error())
		return r
	}
	ctx, cancel := context.WithDeadline(context.Background(), by)
	defer cancel()
	query := redis.NewSliceCmd(ctx, words...)
	_ = q.queries.Process(ctx, query) // Result returns the error
	if r.array, r.err = query.Result(); backend.Failed(r.err) && ctx.Err() == nil {
		q.record(r.err)
	}
	return r
}

// unable returns why a node gets no commands of the pipeline: it is down, or has not answered an earlier one in time.
// It returns "" if the node gets them.
func (p *Pipeline) unable(n *backend.Node) string {
	if n.Down() {
		return n.Reason()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.silent, n.Name()) {
		return backend.NoAnswer
	}
	return ""
}

// noteSilence notes the node that has not answered in time, if that is what err says. The pipeline does not wait for it
// again.
func (p *Pipeline) noteSilence(err error) {
	if err == nil {
		return // without the allocation below
	}
	var u *engine.Unavailable
	if !errors.As(err, &u) || u.Why != backend.NoAnswer {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.silent, u.Node) {
		p.silent = append(p.silent, u.Node)
	}
}
