package lua

import (
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An entry that fails charges nothing and leaves nothing behind: the entries before and after it give the same replies and
// store the same as without it.
func TestFailedEntryLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, alone := start(t), start(t)
	for name, q := range all {
		for step := range int64(40) {
			// Of three entries the second fails, in another way each time.
			bad, why := "bad", ""
			switch step % 5 {
			case 0:
				s.Do("RPUSH", bad, "a list")
				why = "damaged: it is not a string"
			case 1: // a record of this kind that ends within its fields
				whole := text(t, s, "first "+name)
				s.Do("SET", bad, whole[:min(len(whole), 20)])
				why = "damaged"
			case 2:
				s.Do("SET", bad, "\x04\x00\x01\x0f\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01")
				why = "not of this version" // but one with more kinds
			case 3:
				s.Do("SET", bad, "\x03 of another version")
				why = "not of this version"
			case 4: // directory and fields are as they should be, the rest is not
				whole := text(t, s, "first "+name)
				s.Do("SET", bad, whole[:19]+strings.Repeat("\xff", len(whole)-19), "PX", 1000)
			}
			keys := []any{"first " + name, bad, "last " + name}
			args := append(append([]any{"fcall", Decide.Name, 3}, keys...), itoa(int(base+step)), "", q)
			reply, err := s.Client.Do(context.Background(), args...).Text()
			require.NoError(t, err)
			first, last := decide(t, alone, "first "+name, base+step, q), decide(t, alone, "last "+name, base+step, q)
			reply = reply[6:]
			require.True(t, strings.HasPrefix(reply, first), "%s, step %d: %q", name, step, reply)
			require.True(t, strings.HasSuffix(reply, last), "%s, step %d: %q", name, step, reply)
			if step%5 != 4 {
				failed := reply[len(first) : len(reply)-len(last)]
				require.Equal(t, byte(1), failed[0], "%s, step %d: %q", name, step, failed)
				require.Contains(t, failed, why)
			}
			s.Do("DEL", bad)
			for _, key := range []string{"first " + name, "last " + name} {
				require.Equal(t, text(t, alone, key), text(t, s, key), "%s, step %d", name, step)
			}
		}
	}
}

// damage returns a record with a random change: bytes flipped, cut off or added, or a count made huge.
func damage(rng *rand.Rand, record string) string {
	b := []byte(record)
	switch rng.IntN(6) {
	case 0:
		b = b[:rng.IntN(len(b))]
	case 1:
		b = append(b, make([]byte, rng.IntN(600))...)
	case 2: // a run of one byte
		from := rng.IntN(len(b))
		for i := from; i < min(from+1+rng.IntN(12), len(b)); i++ {
			b[i] = []byte{0, 255, 1, 127}[rng.IntN(4)]
		}
	default:
		for range 1 + rng.IntN(8) {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
	}
	return string(b)
}

// Whatever bytes a stored record has, a function soon answers or fails with an error, and a reset removes the record.
func TestDamagedRecordsFailWithAnError(t *testing.T) {
	t.Parallel()
	s := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	whole := map[string]string{}
	lend := func(key, q string, clock int64, part int) { // by the home, to a shard that refused
		_, err := call(s, Lend.Name, key, clock, message(t, fields{
			"spec": q, "requests": 1, "shards": 4, "reports": list{}, "unreachable": list{},
			"refusal": fields{"shard": part, "clock": clock, "incarnation": base, "seq": 1, "ended": false, "used": list{}},
		}))
		require.NoError(t, err)
	}
	for name, q := range all {
		for i := range int64(90) {
			decide(t, s, name, base+11*i, q)
		}
		whole[name] = text(t, s, name)
		if name != "throttle" && name != "shard" && name != "bucket" { // which have no loans
			decide(t, s, "home "+name, base, q)
			lend("home "+name, q, base, 1)
			lend("home "+name, q, base+1, 2)
			whole["home "+name] = text(t, s, "home "+name)
		}
	}
	decide(t, s, "two", base, all["slide"])
	decide(t, s, "two", base, all["counter"])
	whole["two"] = text(t, s, "two")
	names, specs := slices.Sorted(maps.Keys(whole)), slices.Sorted(maps.Keys(all))
	reset := spec(5, 0, 0, 0)
	answered, failed, damaged := 0, 0, 0
	for range 6000 {
		name := names[rng.IntN(len(names))]
		record := damage(rng, whole[name])
		q := all[strings.TrimPrefix(name, "home ")]
		if q == "" || rng.IntN(4) == 0 {
			q = all[specs[rng.IntN(len(specs))]]
		}
		clock := base + 1000 + rng.Int64N(2000)
		s.Do("SET", "k", record, "PX", 3_600_000)
		before := cpuTime(t, s)
		var reply string
		var err error
		switch rng.IntN(6) {
		case 0:
			reply, err = call(s, Inspect.Name, "k", clock)
		case 1:
			reply, err = call(s, Lend.Name, "k", clock, message(t, fields{"spec": q, "requests": 3, "shards": 4, "reports": list{}, "unreachable": list{}}))
		case 2:
			reply, err = call(s, Recall.Name, "k", clock, message(t, fields{"forget": false, "report": false,
				"recall": fields{"shard": 1, "seq": 1, "end_lease": true, "strict": false, "states": list{q[7:18]}}}))
		case 3:
			reply, err = call(s, Take.Name, "k", clock, message(t, fields{"shard": 1, "seq": 1 << 50, "incarnation": base, "clock": clock,
				"strict": false, "pairs": list{}, "held": list{}, "headroom": list{}}))
		default:
			reply, err = call(s, Decide.Name, "k", clock, string(binary.BigEndian.AppendUint32([]byte{0, 3}, 5)), q)
			if err == nil && reply[6] == 1 {
				require.Regexp(t, "is damaged|of this version|unknown kind", reply, "%q", record)
				damaged++
			}
		}
		require.Less(t, cpuTime(t, s)-before, soon, "%q", record)
		if err == nil {
			answered++
		} else {
			failed++
			require.Regexp(t, "is damaged|of this version|unknown kind", err.Error(), "%q", record)
		}
		_ = reply
		if _, left := s.Client.Get(context.Background(), "k").Result(); left == nil && rng.IntN(4) == 0 {
			reply := decide(t, s, "k", clock, reset)
			if reply[0] == 0 { // but for the home of a split key, which a proxy resets
				require.Equal(t, int64(0), s.Client.Exists(context.Background(), "k").Val())
			}
		}
	}
	t.Logf("%d answered, %d refused, %d entries failed", answered, failed, damaged)
	require.Greater(t, damaged, 100)
}

// The newest entry of a log may be later than its charge by the longest step of a grid, whichever path reads the record.
func TestLogWithAnEntryOfTheFutureIsDamaged(t *testing.T) {
	t.Parallel()
	s := start(t)
	const newest, grid = 3 + 16 + 37 - 6, 482_520 // the index of the ms of the newest entry, and ms
	q := all["slide"]
	for _, count := range []int{5, 90} {
		s.Do("DEL", "k")
		for i := range count {
			decide(t, s, "k", base+int64(i), q)
		}
		record, last := text(t, s, "k"), uint64(base+count-1)
		for ahead, status := range map[uint64]byte{grid: 0, grid + 1: 1} {
			s.Do("SET", "k", record[:newest]+string(put(nil, last+ahead, 6))+record[newest+6:])
			require.Equal(t, status, decide(t, s, "k", base+100, q)[0], "%d entries, %d ms", count, ahead)
		}
	}
}

// What drains does so in the end, and the counters of a window are its units: what says otherwise is damaged.
func TestStatesThatCannotBeAreDamaged(t *testing.T) {
	t.Parallel()
	s := start(t)
	const last, drained = 3 + 16, 3 + 16 + 10 // where the ms of the newest charge is, and that at which all has drained
	huge := strings.Repeat("\xff", 6)
	for name, at := range map[string][]int{"throttle": {last, drained}, "bucket": {last, drained}, "fixed": {last}, "counter": {last}, "buckets": {last}, "slide": {last}} {
		s.Do("DEL", "k")
		decide(t, s, "k", base, all[name])
		record := text(t, s, "k")
		for i := 1; i < len(record); i++ {
			s.Do("SET", "k", record[:i])
			require.Regexp(t, "damaged|of this version", decide(t, s, "k", base, all[name]), "%s, %d bytes", name, i)
		}
		for _, i := range at {
			s.Do("SET", "k", record[:i]+huge+record[i+6:])
			require.Contains(t, decide(t, s, "k", base, all[name]), "damaged", "%s, byte %d", name, i)
		}
	}
	s.Do("DEL", "k")
	for i := range int64(9) {
		decide(t, s, "k", base+6000*i, all["buckets"])
	}
	record := text(t, s, "k")
	for clock, most := range map[int64]int{48_000: 14, 60_000: 23} {
		wrong := 0
		for i := drained; i+5 <= len(record); i++ {
			s.Do("SET", "k", record[:i]+huge[:5]+record[i+5:])
			if strings.Contains(decide(t, s, "k", base+clock, all["buckets"]), "do not add up") {
				wrong++
			}
		}
		require.Equal(t, most, wrong, clock)
	}
}

// A log that lacks an entry which a decision needs, or the space for the next one, is damaged, whichever path reads it.
func TestLogsThatLackEntriesAreDamaged(t *testing.T) {
	t.Parallel()
	s := start(t)
	const log, count, slots, first, entry = 3 + 16 + 37, 3 + 16 + 10, 3 + 16 + 13, 3 + 16 + 16, 12
	for i := range int64(90) {
		decide(t, s, "k", base+i, all["slide"])
	}
	record := text(t, s, "k")
	have := uint64(len(record)-log) / entry
	without := record[:len(record)-entry]
	set := func(record string, at int, n uint64) string {
		return record[:at] + string(put(nil, n, 3)) + record[at+3:]
	}
	denied := spec(1, 0, 11, 1, window{60_000, 100}) // until the oldest entry leaves
	for name, c := range map[string]struct{ record, spec string }{
		"more entries than slots":        {set(record, count, have+1), denied},
		"the oldest entry is in no slot": {set(record, first, have), denied},
		"too many slots":                 {set(record, slots, 262_145) + strings.Repeat("\x00", 262_145*entry), denied},
		"a slot is missing":              {without, all["slide"]},
		"the oldest entry is missing":    {set(without, first, have-1), denied},
		"the oldest entry has no time":   {record[:log] + "\xff" + record[log+1:], denied},
	} {
		s.Do("SET", "k", c.record)
		require.Contains(t, decide(t, s, "k", base+100, c.spec), "damaged", name)
	}
}

// The caches that the library keeps between calls are bounded: ever new specs and directories do not take ever more memory.
func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t)
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			decide(t, s, "k"+itoa(i%7), base, spec(1, 0, 1, 1, window{60_000, uint64(1000 + i)}, window{uint64(70_000 + i), 2000}))
			s.Do("DEL", "k"+itoa(i%7))
		}
	}
	ask(0, 3000)
	was := libraryMemory(s)
	ask(3000, 9000)
	require.Less(t, libraryMemory(s), was+was/2)
}

// libraryMemory returns how many bytes of memory the node's functions take.
func libraryMemory(s *redistest.Server) int64 {
	_, rest, _ := strings.Cut(s.Do("INFO", "memory"), "used_memory_vm_functions:")
	digits, _, _ := strings.Cut(rest, "\r")
	n := int64(0)
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	return n
}

// Nothing of a record stays in the caches: long logs that were read, but not changed, take no memory of the library.
func TestCachesKeepNoLogs(t *testing.T) {
	t.Parallel()
	s := start(t)
	slide := func(limit uint64) string { return spec(1, 0, 1, 1, window{60_000, limit}) }
	long := s.Client.Pipeline()
	for i := range 5000 {
		long.Do(context.Background(), "fcall", Decide.Name, 1, "long", itoa(base+i), "", slide(10_000))
	}
	_, err := long.Exec(context.Background())
	require.NoError(t, err)
	rewrite := func(from, to int) int64 {
		for i := from; i < to; i++ {
			key := "k" + itoa(i)
			s.Do("COPY", "long", key)
			now := int64(base + 5000 + i)                   // the log is another string than those of the other keys
			decide(t, s, key, now, slide(uint64(10_000+i))) // makes a directory of its own
			decide(t, s, key, now, all["fixed"])            // reads the log, to rewrite the record
			require.Greater(t, len(text(t, s, key)), 60_000)
		}
		for range 2000 { // while it runs functions, the node collects garbage
			decide(t, s, "short", base, all["fixed"])
		}
		return libraryMemory(s)
	}
	was := rewrite(0, 2)
	now := rewrite(2, 42)
	require.Less(t, now, was+1_000_000)
}

// In a long record, a window that is new takes the place of one that has ended, so the record is not rewritten. It counts as on a
// key of its own.
func TestNewWindowsInALongRecord(t *testing.T) {
	t.Parallel()
	s := start(t)
	clock := int64(base)
	for range 2000 {
		clock++
		decide(t, s, "long", clock, spec(1, 0, 1, 1, window{86_400_000, 10_000}))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rewritten := 0
	for i := range 3000 {
		clock += rng.Int64N(40)
		kind := byte(1 + rng.IntN(3))
		buckets := uint64(1)
		if kind == 2 {
			buckets = []uint64{1, 3, 10}[rng.IntN(3)]
		}
		windows := []window{{10 + rng.Uint64N(30), 2 + rng.Uint64N(4)}}
		if rng.IntN(4) == 0 {
			windows = append(windows, window{100 + rng.Uint64N(5), 6})
		}
		ask := spec(kind, 0, rng.Uint64N(3), buckets, windows...)
		before := text(t, s, "long")
		short, long := decide(t, s, "short", clock, ask), decide(t, s, "long", clock, ask)
		require.Equal(t, short[:5], long[:5], "request %d", i)
		for at := 8; at < len(short); at += 18 { // units used and room; the rate, and when the window is empty, may be those of an ended window
			require.Equal(t, short[at:at+12], long[at:at+12], "request %d", i)
		}
		if len(text(t, s, "long")) != len(before) {
			rewritten++
		}
		if i%100 == 0 {
			require.NotZero(t, decide(t, s, "long", clock, spec(1, 0, 1, 1, window{86_400_000, 10_000}))[4])
			decide(t, s, "short", clock, spec(3, 0, 1, 1, window{86_400_000, 10_000})) // so that both have the same newest charge
		}
	}
	require.Less(t, rewritten, 300)
}
