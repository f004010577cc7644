package engine

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// run is one call of a split key's script. It waits for its node in the same queue as
// requests do, and is answered like one.
type run struct {
	script *lua.Script
	part   int
	key    string // stored
	args   []string
	node   *node // that answered, or did not
	reply  string
	why    string // not empty: it did not
	unsure bool   // and may have run all the same
}

// command returns the run as it is sent.
func (r *run) command(ctx context.Context, clock string) *redis.StringCmd {
	args := []any{"evalsha", r.script.SHA, 1, r.key, clock}
	for _, a := range r.args {
		args = append(args, a)
	}
	return redis.NewStringCmd(ctx, args...)
}

// script returns a run of a part's script, which nobody has asked for yet.
func (e *Redis) script(s *lua.Script, key []byte, part int, args ...[]byte) *run {
	r := &run{script: s, part: part, key: string(shard.AppendStoredKey(nil, key, part))}
	for _, a := range args {
		r.args = append(r.args, string(a))
	}
	return r
}

// post sends runs of scripts of one key to their nodes. wait, if not nil, hears of each.
func (e *Redis) post(key []byte, wait *waiter, runs ...*run) {
	top := e.topology.Load()
	for i := 0; i < len(runs); {
		home := top.locate(key, runs[i].part)
		var items []item
		for ; i < len(runs); i++ { // those of one node together, and in order
			if top.locate(key, runs[i].part) != home {
				break
			}
			items = append(items, item{run: runs[i], wait: wait, at: e.elapsed()})
		}
		top.nodes[home].submit(items)
	}
}

// call sends runs and waits until all are answered.
func (e *Redis) call(key []byte, wait *waiter, runs ...*run) {
	if len(runs) == 0 {
		return
	}
	wait.expect(len(runs))
	e.post(key, wait, runs...)
	wait.wait()
}
