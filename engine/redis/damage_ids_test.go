package redis

import (
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// Whatever is stored in place of a key's ids, a request with an id of that key is answered or gets an
// error about the key. Requests about other keys are not affected, and RL.RESET repairs the key.
func TestDamagedIDs(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	const key = "ids"
	ids := string(shard.AppendIDsKey(nil, []byte(key)))
	requests := []engine.Request{
		chargeOnce(key, "1", 50), reserve(key, "2", 50, 3), settle(key, "2", 2), acquire(key, "3", 5), renew(key, "3"), release(key, "3"),
	}
	fill := func() {
		require.NoError(t, conformance.Ask(a, conformance.Reset(key)).Err)
		askAll(t, a.Engine, requests[0], requests[1], requests[3])
	}
	fill()
	fields, err := a.node.Client.HKeys(t.Context(), ids).Result()
	require.NoError(t, err)
	require.NotEmpty(t, fields)
	refused := 0
	for name, damage := range map[string]func(){
		"another type": func() { a.node.Do("DEL", ids); a.node.Do("SET", ids, "nonsense") },
		"a list":       func() { a.node.Do("DEL", ids); a.node.Do("RPUSH", ids, "a", "b") },
		"empty values": func() {
			for _, f := range fields {
				a.node.Do("HSET", ids, f, "")
			}
		},
		"short values": func() {
			for _, f := range fields {
				a.node.Do("HSET", ids, f, a.node.Do("HGET", ids, f)[:1])
			}
		},
		"long values": func() {
			for _, f := range fields {
				a.node.Do("HSET", ids, f, a.node.Do("HGET", ids, f)+fmt.Sprint(fields))
			}
		},
		"zeros": func() {
			for _, f := range fields {
				a.node.Do("HSET", ids, f, string(make([]byte, len(a.node.Do("HGET", ids, f)))))
			}
		},
		"foreign fields": func() { a.node.Do("HSET", ids, "x", "y", "", "z") },
	} {
		fill()
		damage()
		for _, r := range requests {
			p := engine.Pipeline{Requests: []engine.Request{charge("other", 1_000_000), r, charge("other", 1_000_000)}}
			a.Do(&p)
			require.NoError(t, p.Results[0].Err)
			require.NoError(t, p.Results[2].Err)
			if err := p.Results[1].Err; err != nil {
				refused++
				require.Contains(t, err.Error(), "RL.RESET removes it", "%s: %+v", name, r.Op)
			}
		}
		require.NoError(t, conformance.Ask(a, charge(key, 50)).Err, "%s: what has no id is answered", name)
		require.NoError(t, conformance.Ask(a, conformance.Reset(key)).Err, name)
		for i, res := range askAll(t, a.Engine, requests...) {
			require.False(t, res.Again, "%s: request %d", name, i)
		}
	}
	require.Positive(t, refused)
	a.unharmed(t)
}
