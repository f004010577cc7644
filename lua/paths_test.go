package lua_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// base is the ms at which these tests begin.
const base = int64(conformance.Base)

// The fast path and the slow path give the same replies and store the same, after any history. LUA_HISTORIES sets the number
// of histories.
func TestPathsAgreeOverRandomHistories(t *testing.T) {
	t.Parallel()
	histories := rounds("LUA_HISTORIES", 2)
	for _, kind := range straight(t) {
		for several, least := range map[bool]int{false: 100, true: 75} {
			if several && !kind.Windowed() {
				continue // a rate has one window
			}
			t.Run(fmt.Sprintf("%v, several %v", kind, several), func(t *testing.T) {
				t.Parallel()
				w := startTwins(t)
				for seed := uint64(4); seed < uint64(4+histories); seed++ { // the first few have records of all forms
					rng, n := rand.New(rand.NewPCG(seed, 0)), 1
					if several {
						n = 2 + rng.IntN(limit.MaxWindows-1)
					}
					walk(w, kind, n, rng)
					w.server.Do("FLUSHALL")
				}
				t.Log(w.count)
				require.Greater(t, w.count[path{true, wire.AtNode, kind, false}], least/3*histories)
				if kind == limit.Slide {
					slow, fast := w.count[path{false, wire.AtNode, kind, true}], w.count[path{true, wire.AtNode, kind, true}]
					require.Greater(t, slow+fast, 25*histories, "patched records")
					require.Greater(t, slow, 4*histories)
					if !several {
						require.Greater(t, fast, 60*histories)
					}
				}
			})
		}
	}
}

// A log with a grid loses its oldest entry while its newest entry gets one more unit. The record becomes shorter and expires
// at the same time as before.
func TestFastPathShortensARecord(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	const window, grid = 8*65536 + 3, 9 // ms
	r := request(limit.Slide, limit.Window{Limit: 100_000, Length: window})
	ask := func(clock int64) {
		require.EqualValues(t, 1, w.decide(clock, r, 0, 1).Granted)
		require.True(t, w.last.fast)
	}
	oldest := base + grid - base%grid
	now := oldest + window
	require.NotZero(t, now%grid)
	ask(oldest)
	ask(oldest + 100)
	ask(now)
	before := w.stored(storedKey(r, 0))
	ask(now + 1)
	after := w.stored(storedKey(r, 0))
	require.Less(t, len(after.text), len(before.text))
	require.Equal(t, before.expires, after.expires)
}

// Without cost, any number of requests is granted while there is room.
func TestFastPathGrantsAnyNumberWithoutCost(t *testing.T) {
	t.Parallel()
	for _, kind := range additive {
		w := startTwins(t)
		r := request(kind, limit.Window{Limit: 3, Length: 60_000})
		require.EqualValues(t, 2, w.decide(base, r, 0, 2).Granted)
		r.Cost = 0
		require.EqualValues(t, 5, w.decide(base, r, 0, 5).Granted)
		require.True(t, w.last.fast)
	}
}

// The fast path of a calendar window leaves a request with another date than that of the clock to the slow path, which refuses it,
// whether the window is over or has yet to begin.
func TestFastPathRefusesAnotherDate(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	length, ok := limit.CalendarLength([]byte("day"))
	require.True(t, ok)
	r := request(limit.Fixed, limit.Window{Limit: 1, Length: length})
	r.Date(base - 1)
	require.EqualValues(t, 1, w.decide(base-1, r, 0, 1).Granted)
	require.True(t, w.last.fast)
	require.EqualValues(t, 1, w.decide(base, r, 0, 1).Granted)
	r.Key = []byte("new")
	r.Date(base + day)
	require.EqualValues(t, 1, w.decide(base, r, 0, 1).Granted)
}

// A record of six logs becomes a patched record with 28 entries each, not before.
func TestFastPathEndsWhereRecordsArePatched(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	r := request(limit.Slide)
	r.N = 6
	for i := range r.N {
		r.Windows[i] = limit.Window{Limit: 1000, Length: 60_000 + int64(i)}
	}
	for i := range int64(28) {
		require.EqualValues(t, 1, w.decide(base+i, r, 0, 1).Granted)
		require.Equal(t, path{i < 27, wire.AtNode, limit.Slide, i == 27}, w.last)
	}
}

// For a long log at its limit, the fast path computes to the ms when the oldest entries leave. It leaves the decision to the slow
// path where the ring of entries wraps around, and when many entries have left. It may grant some of several requests.
func TestFastPathOfALongLog(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	const window, most, step = 10_000, 300, 5 // ms, units, ms
	r := request(limit.Slide, limit.Window{Limit: most, Length: window})
	var log []int64 // when entries were made
	for i := range int64(most) {
		log = append(log, base+i*step)
		require.EqualValues(t, 1, w.decide(log[i], r, 0, 1).Granted)
	}
	turn := func(clock, requests, granted int64) { // as many units leave the log as enter it
		t.Helper()
		require.Equal(t, granted, w.decide(clock, r, 0, requests).Granted)
		log = append(log[granted:], slices.Repeat([]int64{clock}, int(granted))...)
	}
	fast := path{true, wire.AtNode, limit.Slide, true}
	clear(w.count)
	const turns = 3 * most / 2
	for range turns {
		turn(log[0]+window, 1, 0)
		turn(log[0]+window+1, 1, 1)
		r.Cost = 0
		turn(log[0]+window, 1, 0)
		r.Cost = 1
	}
	require.Greater(t, w.count[fast], 3*turns*9/10)
	require.Less(t, w.count[fast], 3*turns, "the ring wraps around")
	r.Cost = 40
	turn(log[0]+window, 1, 0)
	require.NotEqual(t, fast, w.last, "as many entries have to leave")
	r.Cost = 1
	turn(log[0]+window+1, 1, 1)
	require.Equal(t, fast, w.last)
	turn(log[1]+window+1, 3, 2)
	require.Equal(t, fast, w.last)
	turn(log[1]+window+1, 2, 2)
	require.Equal(t, fast, w.last)
	require.EqualValues(t, 1, w.decide(log[99]+window+1, r, 0, 1).Granted)
	require.NotEqual(t, fast, w.last)
}

// Logs with spare slots in an inline record, which no function writes, are read correctly.
func TestFastPathLeavesSpareSlotsToTheSlowPath(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	r := request(limit.Slide)
	r.N = 4
	for i := range r.N {
		r.Windows[i] = limit.Window{Limit: 11, Length: 60_000 + int64(i)}
	}
	for i := range int64(10) {
		w.decide(base+i, r, 0, 1)
	}
	const names, fields, entry, spare = 3 + 4*16, 37, 12, 6
	const head = names + 4*fields
	record := w.stored(storedKey(r, 0)).text
	require.Len(t, record, head+4*10*entry)
	spaced := []byte(record[:head])
	for i := range 4 {
		spaced[names+i*fields+15] += spare // the number of slots
		logs := record[head:]
		spaced = append(spaced, logs[i*10*entry:(i+1)*10*entry]...)
		spaced = append(spaced, make([]byte, spare*entry)...)
	}
	require.False(t, patched(string(spaced)))
	for _, key := range []string{storedKey(r, 0), twin(storedKey(r, 0))} {
		require.NoError(t, w.server.Client.SetArgs(t.Context(), key, spaced, redis.SetArgs{KeepTTL: true}).Err())
	}
	require.EqualValues(t, 1, w.decide(base+20, r, 0, 1).Granted)
	require.False(t, w.last.fast)
	require.EqualValues(t, 0, w.decide(base+21, r, 0, 1).Granted)
	for i := range r.N { // without them again
		r.Windows[i].Limit = 15
	}
	require.EqualValues(t, 2, w.decide(base+22, r, 0, 2).Granted)
	require.EqualValues(t, 1, w.decide(base+23, r, 0, 1).Granted)
	require.True(t, w.last.fast)
}

// The entries of one call may have different specs and set different times to live.
func TestBatchOfDifferentSpecsDecidesAsEachAlone(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	var requests, twins []engine.Request
	for i, kind := range []limit.Kind{limit.Slide, limit.Counter, limit.Fixed, limit.Slide, limit.Counter, limit.GCRA} {
		for j := range 3 {
			r := *request(kind)
			r.N = 1 + i%2
			for k := range r.N {
				r.Windows[k] = limit.Window{Limit: 1_000_000, Length: int64(1000 * (1 + j + 3*k))}
			}
			r.Key = []byte("k" + strconv.Itoa(len(requests)))
			if kind == limit.GCRA {
				r = conformance.Throttle(string(r.Key), 1_000_000, 10, int64(1+j), 1)
			}
			requests = append(requests, r)
			r.Key = append(r.Key[:len(r.Key):len(r.Key)], " alone"...)
			twins = append(twins, r)
		}
	}
	ask := func(clock int64, requests ...engine.Request) string {
		var c wire.Call
		for i := range requests {
			_, ok := c.Add(&requests[i], 0)
			require.True(t, ok)
		}
		require.Equal(t, len(requests), c.Len())
		reply, err := w.server.Client.Do(t.Context(), c.Args(strconv.FormatInt(clock, 10), false, false)...).Text()
		require.NoError(t, err)
		answers, _, err := c.Decode(reply)
		require.NoError(t, err)
		for i := range answers {
			require.EqualValues(t, 1, answers[i].Granted, "entry %d: %s", i, answers[i].Failure)
		}
		return reply[6:]
	}
	for i := range int64(80) { // the logs with one window become too long for an inline record
		clock := base + 7*i
		reply := ask(clock, requests...)
		for k := range twins {
			alone := ask(clock, twins[k])
			require.Equal(t, alone, reply[:len(alone)], "%s at %d", twins[k].Key, i)
			reply = reply[len(alone):]
			require.Equal(t, w.stored(storedKey(&twins[k], 0)), w.stored(storedKey(&requests[k], 0)), "%s at %d", twins[k].Key, i)
		}
		require.Empty(t, reply)
	}
}

// The fast path also decides states of one record that different calls charge.
func TestFastPathDecidesStatesChargedApart(t *testing.T) {
	t.Parallel()
	for _, kind := range additive {
		w := startTwins(t)
		r := request(kind)
		r.N = 2
		r.Windows[0], r.Windows[1] = limit.Window{Limit: 1000, Length: 60_000}, limit.Window{Limit: 1000, Length: 70_000}
		ask := func(clock int64, fast bool) {
			require.EqualValues(t, 1, w.decide(base+clock, r, 0, 1).Granted)
			require.Equal(t, fast, w.last.fast, "%v at %d", kind, clock)
		}
		ask(0, true)
		r.N = 1
		ask(1, true)
		r.N = 2
		ask(2, true)
		ask(3, true)
		ask(3000, true)
		ask(3001, true)
	}
}

// Several windows are decided by the fast path also after the library has emptied its cache of directories.
func TestFastPathOfSeveralWindowsOutlastsTheCache(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	ask := func(key string, windows ...int64) {
		r := request(limit.Slide)
		r.Key, r.N = []byte(key), len(windows)
		for i, ms := range windows {
			r.Windows[i] = limit.Window{Limit: 1000, Length: ms}
		}
		require.EqualValues(t, 1, w.decide(base, r, 0, 1).Granted)
	}
	ask("k", 60_000, 70_000)
	const windows = 33 // so few specs make more directories of two states than the cache has room for
	for i := range int64(windows) {
		for j := range int64(windows) {
			for _, ms := range []int64{i, j, j} {
				ask("pair"+strconv.Itoa(int(i*windows+j)), 1000+ms)
			}
		}
	}
	ask("reversed", 70_000, 60_000)
	ask("reversed", 60_000, 70_000)
	ask("k", 60_000, 70_000)
	require.True(t, w.last.fast)
}

// When a state is charged after a long pause, the slow path does not drop another state that the fast path would keep.
func TestPathsDropTheSameStates(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	ask := func(clock int64, kind limit.Kind, window, buckets int64) {
		r := request(kind, limit.Window{Limit: 100, Length: window})
		r.Param = buckets
		require.EqualValues(t, 1, w.decide(base+clock, r, 0, 1).Granted)
	}
	states := func() int { return int(w.stored(storedKey(request(limit.Fixed), 0)).text[2]) }
	ask(0, limit.Slide, 60_000, 1)
	ask(0, limit.Counter, 500, 4)
	ask(0, limit.Fixed, 500, 1)
	ask(900, limit.Fixed, 500, 1) // the counter has ended, which only its last charge does not show yet
	require.True(t, w.last.fast)
	require.Equal(t, 3, states())
	ask(1501, limit.Fixed, 500, 1)
	require.False(t, w.last.fast)
	require.Equal(t, 2, states())
}

// Long logs that become shorter little by little are rewritten in the end.
func TestFastPathLeavesRebuildingToTheSlowPath(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	r := request(limit.Slide)
	r.N = 2
	r.Windows[0], r.Windows[1] = limit.Window{Limit: 1000, Length: 1000}, limit.Window{Limit: 1000, Length: 1010}
	clock := base
	for range 300 {
		w.decide(clock, r, 0, 1)
		clock++
	}
	clock += 700
	full := len(w.stored(storedKey(r, 0)).text)
	for len(w.stored(storedKey(r, 0)).text) == full {
		require.Less(t, clock, base+1500)
		require.EqualValues(t, 1, w.decide(clock, r, 0, 1).Granted)
		clock += 10
	}
	require.False(t, w.last.fast)
}

// straight returns the kinds whose algorithms have straight functions.
func straight(t *testing.T) (kinds []limit.Kind) {
	for _, a := range registered(t) {
		if a.Straight {
			kinds = append(kinds, a.Kind)
		}
	}
	require.NotEmpty(t, kinds)
	return kinds
}

// walk sends random requests for one key, most with the same spec, of n windows or of a rate.
func walk(w *twins, kind limit.Kind, n int, rng *rand.Rand) {
	r := request(kind)
	r.N, r.Manner = n, rng.Int64N(3)/2
	for i := range r.N {
		// Windows of up to a second, and of up to some hundred; limits close to the cost of the requests, and some that give
		// a log a grid.
		length := int64(100*(i+1)) << rng.IntN(10)
		most := 1 + length/20 + rng.Int64N(20)
		if rng.IntN(4) == 0 {
			length, most = length*1000, 100_000+rng.Int64N(5)
		}
		r.Windows[i] = limit.Window{Limit: most, Length: length + int64(i)}
	}
	if kind == limit.GCRA {
		*r = conformance.Throttle("k", 1+rng.Int64N(200), 1+rng.Int64N(1000), 1+rng.Int64N(60), 1)
	}
	step := int64(1) << rng.IntN(8)
	clock := base
	if kind == limit.Fixed && rng.IntN(2) == 0 { // a calendar window, around a midnight
		clock += day/6 - rng.Int64N(200*step)
		r.Windows[rng.IntN(n)].Length, _ = limit.CalendarLength([]byte("day"))
		zone, ok := limit.ZoneNumber([]byte("America/Caracas")) // 4 hours behind
		require.True(w.t, ok && r.InZone(zone))
	}
	for range 400 {
		asked := *r
		switch rng.IntN(300) {
		case 0: // states that were charged by other calls than the others: the slow path until there is a pause
			asked.N = 1 + rng.IntN(r.N)
		case 1: // a state of another kind: the slow path while it lives
			asked = *request(limit.Fixed, limit.Window{Limit: r.Windows[0].Limit, Length: step})
		case 2, 3:
			clock += 3000 + rng.Int64N(100*step)
		case 4, 5, 6, 7:
			i := r.N - 1
			asked.Windows[0], asked.Windows[i] = asked.Windows[i], asked.Windows[0]
		case 8, 9, 10, 11, 12, 13, 14, 15:
			asked.Windows[rng.IntN(r.N)].Limit += rng.Int64N(3) - 1
		case 16, 17, 18, 19, 20, 21, 22, 23:
			asked.Cost = rng.Int64N(4)
		case 24, 25, 26, 27, 28, 29, 30, 31:
			clock -= rng.Int64N(step)
		case 32, 33: // another rate
			if asked.Kind.Rated() {
				asked.Manner += rng.Int64N(2) * asked.Manner
			}
		}
		asked.Date(clock)
		w.decide(clock, &asked, 0, 1+rng.Int64N(3))
		clock += rng.Int64N(2 * step)
	}
}

// The lease summary of a shard is valid from the ms at which the loan was taken until before the lease ends, for at most the
// units held.
func TestShardDecidesByTheFastPathWithinItsLease(t *testing.T) {
	t.Parallel()
	const window = 60_000
	for _, kind := range additive {
		t.Run(kind.String(), func(t *testing.T) {
			w := startTwins(t)
			r := request(kind, limit.Window{Limit: 100, Length: window})
			lend := func(clock, held int64) {
				loan := lease.Loan{
					Shard: 1, Seq: clock * 1000, Incarnation: base, Clock: clock,
					Pairs: wire.Pairs(&r.Spec), Held: []int64{held}, Headroom: []int64{7},
				}
				require.True(t, w.take(clock, r, &loan))
			}
			ask := func(clock, n, granted int64, fast bool) {
				t.Helper()
				require.Equal(t, granted, w.decide(clock, r, 1, n).Granted, "at %d", clock-base)
				require.Equal(t, fast, w.last.fast, "at %d", clock-base)
			}
			r.N, r.Windows[1] = 2, limit.Window{Limit: 100, Length: 2 * window}
			ask(base, 1, 0, false)
			r.N, r.Windows[1] = 1, limit.Window{}
			ask(base, 1, 0, false)
			lend(base, 10)
			ask(base+1, 1, 1, false) // makes the state
			ask(base+2, 1, 1, true)
			lend(base+20, 20)
			ask(base+19, 1, 0, false) // the clock stepped back behind the loan
			ask(base+20, 1, 1, true)
			ask(base+500, 17, 17, true)
			ask(base+501, 1, 0, false) // all that it holds is in use
			lend(base+600, 25)
			ask(base+601, 6, 5, false) // only some of them
			lend(base+700, 93)
			ask(base+1699, 1, 1, true)
			ask(base+1700, 1, 0, false) // the lease has ended
			lend(base+1800, 93)
			ask(base+1810, 1, 1, true)
			ask(base+1805, 1, 0, false) // the clock stepped back behind the last charge
			r.Windows[0].Limit++
			ask(base+1811, 1, 0, false) // lent for another limit
			r.Windows[0].Limit--
			r.Manner = limit.Strict
			ask(base+1811, 1, 0, false) // and for another way to count
			r.Manner, r.Windows[0].Length = 0, window/2
			lend(base+1900, 93)
			ask(base+1901, 1, 1, false) // the record's state is of another window
			ask(base+1902, 1, 1, true)  // two states
			r.Windows[0].Length = window
			lend(base+2000, 93)
			ask(base+2001, 1, 1, true) // the first of two
		})
	}
}

// A home that has lent to many shards has a long lease record, but only its summary is read.
func TestHomeOfManyShardsDecidesByTheFastPath(t *testing.T) {
	t.Parallel()
	const shards = 40
	for _, kind := range additive {
		t.Run(kind.String(), func(t *testing.T) {
			w := startTwins(t)
			r := request(kind, limit.Window{Limit: 1_000_000, Length: 60_000})
			for number := 1; number < shards; number++ {
				w.lend(base+int64(number), r, number, shards)
			}
			for i := range int64(3) {
				a := w.decide(base+100+i, r, 0, 1)
				require.EqualValues(t, 1, a.Granted)
				require.Equal(t, shards, a.Shards)
				require.Equal(t, path{true, wire.AtHome, kind, true}, w.last)
			}
		})
	}
}

// The lease summary of a home is valid until the first loan lapses, for the units that are not lent.
func TestHomeDecidesByTheFastPathUntilALoanLapses(t *testing.T) {
	t.Parallel()
	const window = 500
	for _, kind := range additive {
		t.Run(kind.String(), func(t *testing.T) {
			w := startTwins(t)
			r := request(kind, limit.Window{Limit: 100, Length: window})
			ask := func(clock, n, granted int64, fast bool) {
				t.Helper()
				require.Equal(t, granted, w.decide(clock, r, 0, n).Granted, "at %d", clock-base)
				require.Equal(t, fast, w.last.fast, "at %d", clock-base)
			}
			w.lend(base, r, 1, 4)     // 1 is granted, 24 are lent
			w.lend(base+200, r, 2, 4) // 1 more, 18
			ask(base+201, 1, 1, true)
			require.Equal(t, wire.AtHome, w.last.status)
			ask(base+202, 56, 55, false) // all but one
			lapse := base + rules.Lease + wire.State(&r.Spec, r.Windows[0]).Life()
			ask(lapse-1, 1, 1, true)
			ask(lapse, 1, 1, true)
			ask(lapse+1, 1, 1, false)
			was := w.stored(storedKey(r, 0))
			nothing := w.run(lua.Decide, storedKey(r, 0), lapse+2, "\x00\x03\x00\x00\x00\x00", wire.NewLend(&r.Spec, 0, nil).Spec)
			require.Equal(t, "\x00\x00\x00\x00", nothing[6+4:6+4+4], "granted, of no requests")
			require.False(t, w.last.fast)
			require.Equal(t, was, w.stored(storedKey(r, 0)))
			r.Cost = 0
			ask(lapse, 1, 1, false) // for which the shards are read
			r.Cost, r.Windows[0].Limit = 1, 99
			ask(lapse, 1, 1, false)
		})
	}
}
