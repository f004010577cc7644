package lua_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// rules are those of home.lua and lease.lua.
var rules = lease.Rules{Lease: 1000, Grace: 20}

// additive are the kinds that can be split.
var additive = conformance.Kinds(limit.Kind.Additive)

// twins runs functions and compares the fast path with the slow path: each key has a twin whose calls have no fast path, and
// both must give the same replies and store the same.
type twins struct {
	t      *testing.T
	server *redistest.Server
	count  map[path]int // decisions
	last   path         // of the last decision
	ns     int          // of the clock of the last call, beyond its ms
}

// path describes how a decision was made, and for what record.
type path struct {
	fast    bool
	status  wire.Status // of the reply
	kind    limit.Kind
	patched bool // the record is not inline
}

// Hashes of variants of the library. slowOnly has no fast path: its algorithms have no straight functions. fastOnly has no slow
// path: an entry that needs it fails, and writes nothing.
const (
	slowOnly = "5100500510ff"
	fastOnly = "fa5700fa57ff"
)

// startTwins runs a node that has the library and its variants.
func startTwins(t *testing.T) *twins {
	t.Helper()
	w := &twins{t: t, server: redistest.Start(t), count: map[path]int{}}
	w.server.Do("FUNCTION", "LOAD", lua.Library.Source)
	variant := func(hash string, after ...string) {
		source := strings.ReplaceAll(lua.Library.Source, strings.TrimPrefix(lua.Library.Name, "rlproxy_"), hash)
		for i := 0; i < len(after); i += 2 {
			require.Equal(t, 1, strings.Count(source, after[i]), after[i])
			source = strings.Replace(source, after[i], after[i]+after[i+1], 1)
		}
		w.server.Do("FUNCTION", "LOAD", source)
	}
	variant(slowOnly, "q.straight = q.fresh, q.fresh.last, q.algorithm.straight\n", "  q.straight = nil ",
		"local function read(q, key, clock, release)\n", "do return end ")
	variant(fastOnly, "local function slow_path(q, key, s, clock, requests)\n", "error('the slow path') ",
		"function ids.record(clock)\n", "error('the slow path') ")
	return w
}

// call runs a function, or that of a variant, on one stored key.
func (w *twins) call(f *lua.Function, variant, key string, args []any) string {
	w.t.Helper()
	name := f.Name[:len(f.Name)-len(variant)] + variant
	text, err := w.server.Client.Do(context.Background(), append([]any{"fcall", name, 1, key}, args...)...).Text()
	require.NoError(w.t, err)
	return text
}

// patched reports whether a record is not inline, by the number of its states.
func patched(record string) bool {
	if record == "" {
		return false
	}
	states := int(record[1])<<8 | int(record[2])
	return len(record) >= 320+400*(states-1)
}

// record is everything that a node has of a stored key.
type record struct {
	text    string
	expires time.Duration // since the epoch
}

func (w *twins) stored(key string) record {
	w.t.Helper()
	ctx := context.Background()
	text, err := w.server.Client.Get(ctx, key).Result()
	if err != nil {
		require.ErrorIs(w.t, err, redis.Nil)
	}
	return record{text, w.server.Client.PExpireTime(ctx, key).Val()}
}

// twin returns the name of a stored key's twin.
func twin(key string) string { return key + "twin" }

// run runs a function on a stored key and its twin, at some ns beyond the ms of the clock, and returns the reply.
func (w *twins) run(f *lua.Function, key string, clock int64, args ...any) string {
	w.t.Helper()
	w.ns = (w.ns + 271_829) % 1_000_000
	args = append([]any{fmt.Sprintf("%d.%06d", clock, w.ns)}, args...)
	if f != lua.Decide {
		reply := w.call(f, "", key, args)
		require.Equal(w.t, w.call(f, slowOnly, twin(key), args), reply, f.Name)
		require.Equal(w.t, w.stored(twin(key)), w.stored(key), f.Name)
		return reply
	}
	const probe = "probe"
	require.NoError(w.t, w.server.Client.Del(context.Background(), probe).Err())
	w.server.Do("COPY", key, probe)
	probed := w.call(f, fastOnly, probe, args)
	reply := w.call(f, "", key, args)
	require.Equal(w.t, w.call(f, slowOnly, twin(key), args), reply, "%q", args)
	now := w.stored(key)
	require.Equal(w.t, w.stored(twin(key)), now, "%q", args)
	spec := args[2].(string)
	w.last = path{wire.Status(probed[6]) != wire.Failed, wire.Status(reply[6]), limit.Kind(spec[7]), patched(now.text)}
	if w.last.fast {
		require.Equal(w.t, probed, reply)
		require.Equal(w.t, now, w.stored(probe), "%q", args)
	}
	w.count[w.last]++
	return reply
}

// decide sends n equal requests at once to a shard of the request's key, 0 for the home, and returns the answer. Calendar
// windows that are not those of the node's time get its date.
func (w *twins) decide(clock int64, r *engine.Request, number int, n int64) wire.Answer {
	w.t.Helper()
	var c wire.Call
	for range n {
		c.Add(r, number)
	}
	reply := w.run(lua.Decide, storedKey(r, number), clock, c.Args("", false, false)[5:]...)
	answers, at, err := c.Decode(reply)
	require.NoError(w.t, err, "%q", reply)
	require.Equal(w.t, clock, at)
	require.Len(w.t, answers, 1)
	a := answers[0]
	if m, ok := errors.AsType[*engine.Misdated](wire.KeyError(a.Failure)); ok {
		dated := *r
		dated.Date(m.Now)
		require.NotEqual(w.t, r.Spec, dated.Spec)
		return w.decide(clock, &dated, number, n)
	}
	require.NotEqual(w.t, wire.Failed, a.Status, a.Failure)
	if a.Status == wire.AtShard && a.Refusal == nil {
		require.Equal(w.t, "\x00\x00", reply[len(reply)-2:], "a refusal although all were granted")
	}
	return a
}

// lend asks the home of the request's key, which has `shards` shards, for one request and for a loan to the shard that refused.
func (w *twins) lend(clock int64, r *engine.Request, number, shards int) {
	w.t.Helper()
	asked := wire.NewLend(&r.Spec, shards, nil)
	asked.Refusal = &lease.Refusal{Shard: number, Clock: clock, Incarnation: conformance.Base, Seq: 1}
	w.run(lua.Lend, storedKey(r, 0), clock, texts(wire.Args(asked))...)
}

func storedKey(r *engine.Request, number int) string {
	return string(shard.AppendStoredKey(nil, r.Key, number))
}

// texts returns a function's arguments as a client takes them.
func texts(args [][]byte) (all []any) {
	for _, a := range args {
		all = append(all, string(a))
	}
	return all
}

// request returns a request of cost 1 about the key k, with these windows.
func request(kind limit.Kind, windows ...limit.Window) *engine.Request {
	r := conformance.Request(kind, "k", 0, 0)
	r.N = copy(r.Windows[:], windows)
	return &r
}

// rounds returns the number of rounds of a random test: that of an environment variable, if it is set.
func rounds(variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < otherwise {
		panic(variable + " must be a number, at least " + strconv.Itoa(otherwise) + "; it was " + strconv.Quote(text))
	}
	return n
}
