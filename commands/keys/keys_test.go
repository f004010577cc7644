package keys

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// slow is an engine that works for a while for each pipeline, and lists all names at once.
type slow struct {
	engine.Engine
	names  map[string]bool // that have state
	most   int             // requests of a pipeline
	worked time.Duration   // in all
}

func (e *slow) Do(p *engine.Pipeline) {
	const work = 300 * time.Microsecond
	time.Sleep(work)
	e.most, e.worked = max(e.most, len(p.Requests)), e.worked+work
	for i := range p.Requests {
		name := string(p.Requests[i].Key)
		p.Results = append(p.Results, engine.Result{Reset: e.names[name]})
		delete(e.names, name)
	}
}

func (e *slow) Scan(_ string, _ int, found func(name []byte)) (next string, err error) {
	for name := range e.names {
		found([]byte(name))
	}
	return "0", nil
}

// TestResetMatchLeavesHalfOfTheTimeToOthers resets many keys, some of which have shadows.
func TestResetMatchLeavesHalfOfTheTimeToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 5000
		e := &slow{names: map[string]bool{}}
		for i := range keys {
			key := fmt.Append(nil, i)
			if i%7 > 0 {
				e.names[string(key)] = true
			}
			if i%7 == 0 || i%10 == 0 {
				e.names[string(shard.AppendName(nil, key, true))] = true
			}
		}
		all := func(string) bool { return true } // the categories of the command
		users, err := acl.New(nil, "", acl.Commands{"rl.resetmatch": all})
		require.NoError(t, err)
		c, s, began := Config{Keys: e, Engine: e}, resp.Session{}, time.Now()
		require.Empty(t, c.resetMatch(reply.To(&s), [][]byte{nil, []byte("*")}, table.Caller{User: users.Anonymous()}))
		require.Equal(t, fmt.Sprintf(":%d\r\n", keys), string(s.Out), "each counts once")
		require.LessOrEqual(t, e.most, 2*resets)
		require.InDelta(t, 2*e.worked, time.Since(began), float64(4*pauseAfter))
	})
}
