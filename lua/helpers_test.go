package lua

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
	"github.com/tinylib/msgp/msgp"
)

// base is the ms at which these tests begin. It is in the future because nodes expire keys by their own clock.
const base = 4102444800000

// start runs a node that has the library.
func start(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	s := redistest.Start(t, args...)
	s.Do("FUNCTION", "LOAD", Library.Source)
	return s
}

// window is a limit for a window of some ms.
type window struct{ ms, limit uint64 }

// spec packs a spec as spec.lua reads it.
func spec(kind, flags byte, cost, parameter uint64, windows ...window) string {
	b := put(nil, cost, 6)
	b = put(append(b, flags, kind), parameter, 5)
	for _, w := range windows {
		if kind == 4 { // ns between units, and the limit
			b = put(put(b, w.ms, 8), w.limit, 8)
			continue
		}
		b = put(put(b, w.ms, 5), w.limit, 5)
	}
	return string(b)
}

// put appends the low n bytes of v.
func put(b []byte, v uint64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

type (
	fields = map[string]any
	list   = []any
)

// message packs a message as messages.lua names it.
func message(t *testing.T, m fields) string {
	t.Helper()
	b, err := msgp.AppendIntf(nil, m)
	require.NoError(t, err)
	return string(b)
}

// call runs a function on one key.
func call(s *redistest.Server, name, key string, clock int64, args ...any) (string, error) {
	all := append([]any{"fcall", name, 1, key, strconv.FormatInt(clock, 10)}, args...)
	return s.Client.Do(context.Background(), all...).Text()
}

// decide asks for one decision about a key, and returns the reply without the clock.
func decide(t *testing.T, s *redistest.Server, key string, clock int64, spec string) string {
	t.Helper()
	reply, err := call(s, Decide.Name, key, clock, "", spec)
	require.NoError(t, err)
	return reply[6:]
}

// all has specs of every kind.
var all = map[string]string{
	"slide":           spec(1, 0, 1, 1, window{60_000, 100}),
	"slide 2 windows": spec(1, 0, 1, 1, window{60_000, 100}, window{120_000, 150}),
	"counter":         spec(2, 0, 1, 1, window{60_000, 100}),
	"buckets":         spec(2, 1, 1, 10, window{60_000, 100}),
	"many buckets":    spec(2, 0, 1, 1000, window{60_000, 100}),
	"fixed":           spec(3, 0, 1, 1, window{60_000, 100}),
	"bucket":          spec(9, 0, 1, 100, window{60_000, 100}),
	"throttle":        spec(4, 0, 1, 1, window{600_000_000, 100}),
	"shard":           spec(1, 2, 1, 1, window{60_000, 100}),
}

func text(t *testing.T, s *redistest.Server, key string) string {
	t.Helper()
	v, err := s.Client.Get(context.Background(), key).Result()
	if err != nil {
		require.ErrorIs(t, err, redis.Nil)
	}
	return v
}

// soon is the most CPU time that a call may take, whatever is stored.
const soon = 2 * time.Second

// cpuTime returns the CPU time that a node has taken so far. What else the machine does hardly changes it.
func cpuTime(t *testing.T, s *redistest.Server) time.Duration {
	t.Helper()
	_, after, _ := strings.Cut(s.Do("INFO", "cpu"), "used_cpu_user:")
	seconds, _, _ := strings.Cut(after, "\r")
	d, err := time.ParseDuration(seconds + "s")
	require.NoError(t, err)
	return d
}

func itoa(n int) string { return strconv.Itoa(n) }

// How long a test waits for what a node does in the background.
const (
	waiting = 20 * time.Second
	tick    = 10 * time.Millisecond
)
