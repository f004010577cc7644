// Package registry keeps values of the proxies on nodes, where other proxies of the same nodes read them: lists of
// backends (engine/layout), busiest keys (engine/hotkeys) and policies (policy/store).
//
// A value is a string with a time to live. Each change is made by one script (put.lua), which can require that the
// stored value still has the first line that was read. Values with names have an index, so that all of them can be
// read. An index and its values are bounded in number and bytes, and are in one slot of a Redis Cluster.
//
// Others may be able to write to a node: what is not an index counts as an empty one, and callers check values.
//
// Reading order: registry.go (this file), loop.go.
package registry

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlproxy/rlproxy/engine/backend"
)

//go:embed put.lua
var script string

// Bounds that the script observes, too.
const (
	MaxNames = 64          // names in an index
	MaxLine  = 64          // bytes of a first line, with its newline
	maxName  = 128         // bytes of a name
	maxLive  = time.Minute // time for which a name is listed
)

// ErrFull is the error if an index has no room for a further name.
var ErrFull = errors.New("the index has no room for a further name")

// Unreachable is the error of a node that was not asked because it is down. It says why.
type Unreachable string

func (u Unreachable) Error() string { return string(u) }

// Registry is the place of some values on a node.
type Registry struct {
	Node *backend.Node
	// the stored key of the index, or of the only value. A name's value is stored under Key and the name.
	Key   string
	Bytes int64         // the most bytes of a value
	Limit time.Duration // the timeout of a round trip
}

// Index is a node's index as it was read.
type Index struct {
	Names   map[string]time.Time // until when each name is listed, by this process's clock
	Latency time.Duration        // the time that the round trip took
	Offset  time.Duration        // the node's clock minus that of this machine
}

// Full reports whether there may be names that the index has no room for.
func (x *Index) Full() bool { return len(x.Names) >= MaxNames }

// List reads the index.
func (r Registry) List(ctx context.Context) (Index, error) {
	return r.index(ctx, "", nil, 0, -time.Millisecond)
}

// Keep stores a value under a name for ttl, unless it is listed for half of that still, and returns the index. If the
// index is full, Keep returns the index and ErrFull.
func (r Registry) Keep(ctx context.Context, name string, value []byte, ttl time.Duration) (Index, error) {
	return r.index(ctx, name, value, ttl, ttl/2)
}

// Put is like Keep, but always stores the value.
func (r Registry) Put(ctx context.Context, name string, value []byte, ttl time.Duration) (Index, error) {
	return r.index(ctx, name, value, ttl, 2*maxLive)
}

// Remove removes a name and its value.
func (r Registry) Remove(ctx context.Context, name string) error {
	_, err := r.index(ctx, name, nil, 0, 2*maxLive)
	return err
}

// Replace stores the only value of a registry without an index for ttl, if the first line of the stored value is still
// line; "": if none is stored. It reports whether it did. If the value is empty, Replace keeps the stored one and
// renews its time to live.
func (r Registry) Replace(ctx context.Context, line string, value []byte, ttl time.Duration) (bool, error) {
	reply, err := r.eval(ctx, 1, r.Key, "", value, ttl.Milliseconds(), line, 0)
	return err == nil && reply[0] == int64(1), err
}

// index runs the script for a registry with an index.
func (r Registry) index(ctx context.Context, name string, value []byte, ttl, longer time.Duration) (Index, error) {
	sent := time.Now()
	reply, err := r.eval(ctx, 2, r.Key+name, r.Key, name, value, ttl.Milliseconds(), "*", longer.Milliseconds())
	if err != nil {
		return Index{}, err
	}
	x, err := parse(reply[1:], sent, time.Now())
	if err == nil && reply[0] == int64(-1) {
		err = ErrFull
	}
	return x, err
}

// eval runs the script with so many keys.
func (r Registry) eval(ctx context.Context, keys int, args ...any) ([]any, error) {
	ctx, c, cancel, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	cmd := redis.NewSliceCmd(ctx, append([]any{"eval", script, keys}, args...)...)
	if err := c.Process(ctx, cmd); err != nil {
		return nil, err
	}
	if len(cmd.Val()) != 4 {
		return nil, errReply
	}
	return cmd.Val(), nil
}

// Read returns the only value of a registry without an index, at most its first bytes.
func (r Registry) Read(ctx context.Context, most int64) (value []byte, err error) {
	ctx, c, cancel, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return c.GetRange(ctx, r.Key, 0, most-1).Bytes()
}

// Values passes each name's value to found, at most its first Bytes and one more, or the error of reading it. What is
// not stored has no bytes.
func (r Registry) Values(ctx context.Context, names []string, found func(name string, value []byte, err error)) {
	ctx, c, cancel, err := r.begin(ctx)
	if err != nil || len(names) == 0 {
		return
	}
	defer cancel()
	values, pipe := make([]*redis.StringCmd, len(names)), c.Pipeline()
	for i, name := range names {
		values[i] = pipe.GetRange(ctx, r.Key+name, 0, r.Bytes)
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for i, name := range names {
		value, err := values[i].Bytes()
		found(name, value, err)
	}
}

// begin returns the context of a round trip, which cancel ends, and the node's client.
func (r Registry) begin(ctx context.Context) (_ context.Context, c *redis.Client, cancel func(), err error) {
	if r.Node.Client() == nil || r.Node.Down() {
		return ctx, nil, nil, Unreachable(r.Node.Reason())
	}
	ctx, cancel = context.WithTimeout(ctx, r.Limit)
	return ctx, r.Node.Client(), cancel, nil
}

var errReply = errors.New("malformed reply to a script")

// parse parses a node's time and index in the reply to a call that was sent and answered at the given times.
func parse(reply []any, sent, received time.Time) (x Index, err error) {
	words := make([]string, 3)
	for i := range words {
		words[i], _ = reply[i].(string) // what is no string is malformed
	}
	seconds, err := strconv.ParseUint(words[0], 10, 40)
	micros, err2 := strconv.ParseUint(words[1], 10, 20)
	if err = errors.Join(err, err2); err != nil {
		return x, fmt.Errorf("%w: %w", errReply, err)
	}
	now := time.UnixMicro(int64(seconds)*1e6 + int64(micros))
	x = Index{Names: make(map[string]time.Time), Latency: received.Sub(sent)}
	x.Offset = now.Sub(sent.Add(x.Latency / 2))
	var index map[string]float64
	if json.Unmarshal([]byte(words[2]), &index) != nil {
		return x, nil // it counts as empty
	}
	for name, till := range index {
		left := till - float64(now.UnixMilli())
		if left > 0 && left <= float64(maxLive.Milliseconds()) && len(name) <= maxName && len(x.Names) < MaxNames {
			x.Names[name] = received.Add(time.Duration(left) * time.Millisecond)
		}
	}
	return x, nil
}

// Refused reports whether err is a node's refusal of a command, such as NOPERM. What a node cannot do while it is in
// trouble is no refusal. If the node says that a slot has moved, the fleet looks for its node.
func Refused(fleet *backend.Fleet, err error) bool {
	if redis.HasErrorPrefix(err, "MOVED") {
		fleet.CheckTopology()
		return false
	}
	return backend.IsReply(err) && !backend.Failed(err)
}
