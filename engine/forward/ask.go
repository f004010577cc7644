package forward

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// askNext is how long ask waits for one node before it also asks the next one. If passthrough-timeout is short, an
// eighth of it takes its place.
const askNext = 50 * time.Millisecond

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

// ask sends a query that all nodes answer alike, and returns the reply of one of them. A node that is slow or fails
// does not keep the others from being asked. The node that answered last is asked first. If no node answers, p does not
// wait for any of them again.
func (f *Forwarder) ask(p *Pipeline, words ...any) (nodeReply, error) {
	v := f.lanes()
	first := max(0, slices.Index(v.Nodes, f.answered.Load()))
	timeout := f.live.Load().Timeout
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	next := time.NewTicker(max(min(askNext, timeout/8), 1))
	defer next.Stop()
	replies := make(chan nodeReply, len(v.Nodes))
	var err error // of the first node; it is returned if the others fail, too
	for asked, waiting := 0, 0; asked < len(v.Nodes) || waiting > 0; {
		if asked < len(v.Nodes) {
			at := (first + asked) % len(v.Nodes)
			asked++
			if why := p.unable(v.Nodes[at]); why != "" {
				if at == first {
					err = unavailable(v.Nodes[at], why)
				}
				continue
			}
			waiting++
			v.Queues[at][resp2].ask(ctx, replies, words)
		}
		select {
		case <-next.C:
		case r := <-replies:
			waiting--
			if r.err == nil || r.refused() {
				f.answered.Store(r.node)
				return r, nil
			}
			failure := unavailable(r.node, backend.Reason(r.err))
			p.noteSilence(failure)
			if r.node == v.Nodes[first] {
				err = failure
			}
		}
	}
	return nodeReply{}, err
}

// ask sends a query without queuing it. The reply goes to a channel that has room for it, by the deadline of ctx.
func (q *queue) ask(ctx context.Context, to chan<- nodeReply, words []any) {
	if err := q.open(1); err != nil {
		to <- nodeReply{node: q.node, err: backend.Reply(err.Error())}
		return
	}
	go func() { // until the reply, the deadline of ctx, or close
		defer q.asks.Done()
		var raw answer
		r := nodeReply{node: q.node, err: backend.ErrMalformed}
		backend.Guard(q.config.Logger, "COMMAND to "+q.node.Name(), func() {
			r.err = q.client.Process(ctx, redis.NewRawWriteToCmd(ctx, &raw, words...))
		})
		if r.err == nil {
			r.array, r.err = parseArray(raw)
		}
		if backend.Failed(r.err) && ctx.Err() == nil {
			q.record(r.err)
		}
		to <- r
	}()
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
