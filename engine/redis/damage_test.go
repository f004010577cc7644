package redis

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// slow is the CPU time of the node that no function may exceed, whatever is stored. A busy machine
// changes it little.
const slow = 60 * time.Millisecond

// attacked is an engine on one node whose records are tampered with.
type attacked struct {
	*Engine
	node *redistest.Server
	log  proxytest.LockedBuffer

	// ms is the clock that functions use. Only tests move it, so that the times of a record mean the
	// same in each run. It is in the future, because nodes expire keys by their own clock.
	ms atomic.Int64
}

func startAttacked(t testing.TB) *attacked {
	a := &attacked{node: redistest.Start(t)}
	logger := slog.New(slog.NewTextHandler(&a.log, nil))
	a.Engine = openOn(t, backend.Config{Backends: []string{a.node.URL()}, Timeout: 10 * time.Second, Logger: logger},
		Config{AskAlways: true, Logger: logger})
	a.ms.Store(conformance.Base)
	a.nodeClock = a.ms.Load
	require.False(t, conformance.Ask(a, charge("warm", 1)).Err != nil) // the library is there
	return a
}

// store writes the record of a key's shard.
func (a *attacked) store(t testing.TB, key string, number int, record []byte) {
	t.Helper()
	script := "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000)"
	require.NoError(t, a.node.Client.Eval(t.Context(), script, []string{stored(key, number)}, record).Err())
}

func stored(key string, number int) string {
	return string(shard.AppendStoredKey(nil, []byte(key), number))
}

// spent returns the CPU time that the node has used, and how many functions it has run.
func (a *attacked) spent(t testing.TB) (took time.Duration, calls int) {
	t.Helper()
	text, err := a.node.Client.Info(t.Context(), "cpu", "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_user", "used_cpu_sys":
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			took += time.Duration(seconds * float64(time.Second))
		case "cmdstat_fcall":
			_, err := fmt.Sscanf(value, "calls=%d,", &calls)
			require.NoError(t, err)
		}
	}
	return took, calls
}

// unharmed requires that nothing panicked, and that the node never counted as failing.
func (a *attacked) unharmed(t testing.TB) {
	t.Helper()
	require.NotContains(t, a.log.String(), "internal error")
	require.Zero(t, a.Topology().Nodes[0].Failures(), a.log.String())
}

// ask sends every kind of request about a key, among requests about other keys, and returns the
// errors. Each must be about the key, and the requests about other keys must be answered.
func (a *attacked) ask(t *testing.T, key string, requests ...engine.Request) (errs []string) {
	t.Helper()
	var p engine.Pipeline
	for _, r := range append(slices.Clone(requests), conformance.Inspect(key)) {
		*p.Add() = charge("other", math.MaxInt32)
		*p.Add() = r
	}
	*p.Add() = charge("other", math.MaxInt32)
	before, calls := a.spent(t)
	a.Do(&p)
	after, now := a.spent(t)
	require.Less(t, (after-before)/time.Duration(now-calls), slow)
	for i := range p.Results {
		res := &p.Results[i]
		if i%2 == 0 {
			require.NoError(t, res.Err)
			require.True(t, res.Allowed && res.Remaining > 0, "%+v", res)
			continue
		}
		if res.Err != nil {
			require.Contains(t, res.Err.Error(), "'rl:{"+key)
			require.Contains(t, res.Err.Error(), "RL.RESET removes it")
			require.Regexp(t, "^ERR the stored record of ", res.Err.Error())
			errs = append(errs, res.Err.Error())
			continue
		}
		requireAnswer(t, &p.Requests[i], res)
	}
	return errs
}

// cured resets the key and requires that it counts from zero. If the home of a split key was damaged,
// its shards may hold their loans until their leases end.
func (a *attacked) cured(t testing.TB, key string, r engine.Request) {
	t.Helper()
	require.NoError(t, conformance.Ask(a, conformance.Reset(key)).Err)
	res := conformance.Ask(a, r)
	require.NoError(t, res.Err)
	require.True(t, res.Allowed, "%+v", res)
	if r.Shards == 0 {
		require.Equal(t, r.Windows[0].Limit-r.Cost, res.Remaining)
	}
}

// sample is a key with a record of one kind, the requests about it, and the record.
type sample struct {
	request engine.Request
	key     string
	number  int // of the shard
	record  []byte
}

// through returns the request with an ID that makes it ask the given shard of its key first.
func (a *attacked) through(r engine.Request, number int) engine.Request {
	for i := int64(0); r.Shards > 0; i++ {
		r.ID = strconv.AppendInt(nil, i, 10)
		if asked, _, _ := a.splits.Route(new(split.Routes), &r); asked == number {
			break
		}
	}
	return r
}

// samples returns records of every kind and form.
func (a *attacked) samples(t testing.TB) (all []sample) {
	add := func(key string, r engine.Request, charges int) {
		r.Key, r.Fail = []byte(key), engine.FailError
		for range charges {
			a.ms.Add(1)
			require.NoError(t, conformance.Ask(a, r).Err, key)
		}
		for number := range max(r.Shards, 1) {
			through := a.through(r, number)
			record, err := a.node.Client.Get(t.Context(), stored(key, number)).Bytes()
			for try := 0; errors.Is(err, goredis.Nil) && try < 100; try++ { // a shard's lease ends early when the machine is busy
				require.NoError(t, conformance.Ask(a, through).Err, key)
				record, err = a.node.Client.Get(t.Context(), stored(key, number)).Bytes()
			}
			require.NoError(t, err, stored(key, number))
			all = append(all, sample{through, key, number, record})
		}
	}
	windows := func(kind limit.Kind, buckets int64, ws ...limit.Window) engine.Request {
		r := conformance.Request(kind, "", 0, 0)
		r.N, r.Param = copy(r.Windows[:], ws), buckets
		return r
	}
	minute, hour := limit.Window{Limit: 1000, Length: 60_000}, limit.Window{Limit: 5000, Length: 3_600_000}
	for _, kind := range conformance.Kinds(limit.Kind.Windowed) {
		add(kind.String(), windows(kind, 1, minute), 5)
	}
	add("slides", windows(limit.Slide, 1, minute, hour), 5)
	add("long", windows(limit.Slide, 1, minute), 120)
	add("buckets", windows(limit.Counter, 10, minute, hour), 5)
	add("throttle", conformance.Throttle("", 100, 100, 60, 1), 5)
	split := windows(limit.Slide, 1, minute)
	split.Shards = 3
	add("split", split, 60)
	return all
}

// Whatever is changed in a stored record, the worst outcome is an error that names the key. Every
// record is cut off at every byte, and every byte is changed: by make soak all of them, and otherwise
// every eighth, beginning with another one in each run.
func TestDamagedRecordsAreErrorsOfTheirKeys(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	every := 8
	if conformance.Soaks() {
		every = 1
	}
	from := rand.IntN(every) // #nosec G404 -- a test's choice
	t.Logf("bytes from %d on, one in %d", from, every)
	for _, s := range a.samples(t) {
		t.Run(fmt.Sprintf("%s/%d", s.key, s.number), func(t *testing.T) {
			peek := s.request
			peek.Cost = 0
			step, failed := every*(1+len(s.record)/400), 0
			try := func(record []byte) {
				a.store(t, s.key, s.number, record)
				failed += len(a.ask(t, s.key, peek, s.request))
			}
			for at := from; at < len(s.record); at += step {
				if at > 0 {
					try(s.record[:at])
				}
				for _, to := range []byte{0, 255, s.record[at] ^ 128, s.record[at] + 1} {
					record := bytes.Clone(s.record)
					record[at] = to
					try(record)
				}
			}
			for at := from; at+8 < len(s.record); at += step {
				record := bytes.Clone(s.record)
				copy(record[at:], "\xff\xff\xff\xff\xff\xff\xff\xff")
				try(record)
			}
			try(append(bytes.Clone(s.record), make([]byte, 2000)...))
			if s.number == 0 { // what is wrong with a shard, its home makes up for
				require.Greater(t, failed, 20/every)
			}
			a.store(t, s.key, s.number, s.record[:len(s.record)-1])
			a.cured(t, s.key, s.request)
			a.unharmed(t)
		})
	}
}

// head packs the head of a record, and the names of its states: kind, buckets, window,
// limit for each.
func head(names ...int64) []byte {
	b := bytesOf(1, 4, 2, int64(len(names)/4))
	for i := 0; i < len(names); i += 4 {
		b = append(b, bytesOf(1, names[i], 5, names[i+1], 5, names[i+2], 5, names[i+3])...)
	}
	return b
}

// A record with a value that no function writes is an error at once.
func TestImpossibleRecords(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	now := a.ms.Load()
	far := int64(1<<48 - 1)
	join := slices.Concat[[]byte]
	state := func(ms int64) []byte { return bytesOf(6, ms, 4, 1) } // last, rate
	slide := head(1, 1, 60_000, 10)
	records := map[string][]byte{
		"65,535 states":          join(bytesOf(1, 3, 2, 65535), bytes.Repeat(head(1, 1, 60_000, 10)[3:], 65535), make([]byte, 37*65535)),
		"states without names":   bytesOf(1, 3, 2, 65535),
		"a far charge":           join(slide, state(far), bytesOf(3, 1, 3, 1, 3, 0, 6, 0, 6, 1, 6, far), log(far, 1)),
		"a far entry":            join(slide, state(now), bytesOf(3, 1, 3, 1, 3, 0, 6, 0, 6, 1, 6, far), log(far, 1)),
		"a log of 2^24 entries":  join(slide, state(now), bytesOf(3, 1<<24-1, 3, 1<<24-1, 3, 0, 6, 0, 6, 1<<40, 6, now), make([]byte, 12<<20)),
		"a log without entries":  join(slide, state(now), bytesOf(3, 5, 3, 200_000, 3, 7, 6, 0, 6, 5, 6, now), make([]byte, 600)),
		"totals beyond limits":   join(slide, state(now), bytesOf(3, 2, 3, 2, 3, 0, 6, 0, 6, 1<<47, 6, now), log(now-9, 1, now, 1<<47)),
		"a log out of order":     join(slide, state(now), bytesOf(3, 4, 3, 4, 3, 0, 6, 0, 6, 1<<47, 6, now), log(now, 9, 5, 1, now-7, 3, 9, 2)),
		"a million buckets":      join(head(2, 65535, 1<<40-1, 10), state(now), bytesOf(6, 1<<48-1), make([]byte, 5*65536)),
		"buckets that add up":    join(head(2, 10, 60_000, 10), state(now), bytesOf(6, 0), bytes.Repeat(bytesOf(5, 1), 11)),
		"buckets that do not":    join(head(2, 10, 60_000, 10), state(now), bytesOf(6, 3), bytes.Repeat(bytesOf(5, 1<<39), 11)),
		"buckets in the future":  join(head(2, 1000, 60_000, 10), state(far), bytesOf(6, 1000), bytes.Repeat(bytesOf(5, 1), 1001)),
		"a full fixed window":    join(head(3, 1, 60_000, 10), state(now), bytesOf(6, 1<<48-1)),
		"a fixed far window":     join(head(3, 1, 60_000, 10), state(far), bytesOf(6, 5)),
		"a pair in the future":   join(head(2, 1, 60_000, 10), state(far), bytesOf(5, 5, 5, 5)),
		"a rate that never ends": join(head(4, 1, 0, 10), state(now), bytesOf(6, far, 3, 1<<24-1, 8, 1)),
		"a rate of the future":   join(head(4, 1, 0, 10), state(far), bytesOf(6, now, 3, 0, 8, math.MaxInt64)),
		"a lease without table":  join(head(6, 1, 0, 0), bytesOf(3, 1<<24-1, 3, 1<<24-1, 6, far), make([]byte, 43)),
		"nests of tables":        join(head(6, 1, 0, 0), bytesOf(3, 250_000, 3, 250_000, 6, now), make([]byte, 43), bytes.Repeat([]byte{0x91}, 250_000)),
		"many tables":            join(head(6, 1, 0, 0), bytesOf(3, 250_000, 3, 250_000, 6, now), make([]byte, 43), []byte{0xdd, 0, 3, 0, 0}, bytes.Repeat([]byte{0x90}, 249_995)),
		"many values":            join(head(6, 1, 0, 0), bytesOf(3, 250_000, 3, 250_000, 6, now), make([]byte, 43), bytes.Repeat([]byte{0xc0}, 250_000)),
	}
	for name, record := range records {
		t.Run(name, func(t *testing.T) {
			a.impossible(t, func() { a.store(t, "k", 0, record) })
		})
	}
}

// log packs the entries of a log: ms and running total for each.
func log(entries ...int64) (b []byte) {
	for i := 0; i < len(entries); i += 2 {
		b = append(b, bytesOf(6, entries[i], 6, entries[i+1])...)
	}
	return b
}

// No function writes a log entry without units. Such entries count nothing: answers are those without them, except that a
// denial may say to come back when only they have left the window.
func TestLogEntriesWithoutUnitsCountNothing(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	now := a.ms.Load()
	record := func(entries ...int64) []byte { // 7 units were charged 20 ms ago, and then 93
		n := int64(len(entries) / 2)
		return slices.Concat(head(1, 1, 60_000, 100), bytesOf(6, now-10, 4, 1, 3, n, 3, n, 3, 0, 6, 0, 6, 100, 6, now-10), log(entries...))
	}
	clean, empty := record(now-20, 7, now-10, 100), map[string][]byte{
		"before the window":  record(1, 0, 2, 0, now-20, 7, now-10, 100),
		"in it":              record(now-22, 0, now-21, 0, now-20, 7, now-10, 100),
		"between the others": record(now-20, 7, now-15, 7, now-10, 100),
	}
	for name, damaged := range empty {
		t.Run(name, func(t *testing.T) {
			for _, later := range []int64{0, 59_979, 59_980, 59_981, 59_990, 59_991} {
				for most := int64(1); most < 300; most += 3 {
					for _, second := range []limit.Window{{}, {Limit: 500, Length: 3_600_000}} {
						r := conformance.Slide("k", most, 60_000, 1)
						if second.Limit > 0 {
							r.N, r.Windows[1] = 2, second
						}
						a.ms.Store(now + later)
						a.store(t, "k", 0, clean)
						want := conformance.Ask(a, r)
						a.store(t, "k", 0, damaged)
						got := conformance.Ask(a, r)
						require.NoError(t, got.Err)
						require.LessOrEqual(t, got.RetryAfter, want.RetryAfter)
						require.Equal(t, want.RetryAfter > 0, got.RetryAfter > 0)
						got.RetryAfter = want.RetryAfter
						require.Equal(t, want, got, "%d ms later, limit %d", later, most)
					}
				}
			}
		})
	}
	a.unharmed(t)
}

// impossible sends every kind of request about a key whose record was just replaced.
func (a *attacked) impossible(t *testing.T, store func()) {
	var requests []engine.Request
	for _, kind := range conformance.Kinds(limit.Kind.Windowed) {
		r := conformance.Request(kind, "k", 10, 60_000)
		requests = append(requests, r)
		r.Cost = 0
		requests = append(requests, r)
		r.Cost, r.N, r.Windows[1] = 11, 2, limit.Window{Limit: 20, Length: 3_600_000}
		requests = append(requests, r)
		r = conformance.Request(kind, "k", 10, 60_000)
		r.Shards = 3
		requests = append(requests, r)
	}
	r := conformance.Request(limit.Counter, "k", 10, 60_000)
	for r.Param = range int64(1001) {
		if r.Param == 10 || r.Param == 1000 {
			requests = append(requests, r)
		}
	}
	requests = append(requests, conformance.Throttle("k", 9, 10, 60, 1), conformance.Throttle("k", 9, 10, 60, 0))
	errs := 0
	for _, r := range requests { // each finds what was stored, not what another has made of it
		store()
		errs += len(a.ask(t, "k", r))
	}
	require.Positive(t, errs)
	store()
	a.cured(t, "k", charge("k", 10))
	a.unharmed(t)
	require.NoError(t, conformance.Ask(a, conformance.Reset("k")).Err)
}

// FuzzStoredRecord tests the same with any bytes that are stored for a key or a shard, and read the
// given number of ms after the samples were made.
func FuzzStoredRecord(f *testing.F) {
	a := startAttacked(f)
	all := a.samples(f)
	made := a.ms.Load()
	for i, s := range all {
		f.Add(uint8(i), uint16(0), s.record)
		f.Add(uint8(i), uint16(1500), s.record) // leases have ended
	}
	f.Fuzz(func(t *testing.T, of uint8, later uint16, record []byte) {
		a.ms.Store(made + int64(later))
		s := all[int(of)%len(all)]
		peek, other := s.request, all[int(of/16)%len(all)].request
		peek.Cost, other.Key = 0, s.request.Key
		a.store(t, s.key, s.number, record)
		a.ask(t, s.key, peek, s.request, other)
		require.NoError(t, conformance.Ask(a, conformance.Reset(s.key)).Err)
		a.unharmed(t)
		a.forgetAll(t) // an input stands alone
	})
}

// A stored value that is not a string is treated like a damaged record.
func TestStoredKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	a.node.Do("RPUSH", stored("k", 0), "a", "b")
	require.Len(t, a.ask(t, "k", charge("k", 10)), 2)
	a.cured(t, "k", charge("k", 10))
	a.unharmed(t)
}
