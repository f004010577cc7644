package engine

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// A question says and stores the same by the short way as by the long one, over records of
// any history.
func TestShortWayOfWindows(t *testing.T) {
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		for several, least := range map[bool]int{false: 1000, true: 300} {
			t.Run(fmt.Sprintf("%v, several %v", op, several), func(t *testing.T) {
				w := newWays(t, redistest.Start(t))
				for seed := range uint64(12) {
					rng, n := rand.New(rand.NewPCG(seed, 0)), 1
					if several {
						n = 2 + rng.IntN(MaxWindows-1)
					}
					windowsWalk(w, op, n, rng)
					w.server.Do("FLUSHALL")
				}
				t.Log(w.short)
				require.Greater(t, w.short[byWay{true, atNode, op, false}], least)
				if op == OpSlide {
					require.Greater(t, w.short[byWay{true, atNode, op, true}], 100, "logs too long for one piece")
				}
			})
		}
	}
}

// A log with a grid loses its oldest entry while its newest takes one more unit: the record gets shorter and lives as
// long as before.
func TestShortWayOfShrinkingRecord(t *testing.T) {
	w := newWays(t, redistest.Start(t))
	const window, grid = 8*65536 + 3, 9 // ms
	r := &Request{Key: []byte("k"), Op: OpSlide, Buckets: 1, Cost: 1, N: 1, Windows: [MaxWindows]Window{{100_000, window}}}
	ask := func(clock int64) {
		require.EqualValues(t, 1, w.ask(clock, r, false, 1))
		require.True(t, w.last.short)
	}
	oldest := int64(testBase + grid - testBase%grid)
	now := oldest + window
	require.NotZero(t, now%grid)
	ask(oldest)
	ask(oldest + 100)
	ask(now)
	before := w.stored("k")
	ask(now + 1)
	after := w.stored("k")
	require.Less(t, len(after[0].(string)), len(before[0].(string)))
	require.Equal(t, before[1], after[1])
}

// Without cost, what is not full lets in any number.
func TestShortWayWithoutCost(t *testing.T) {
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		w := newWays(t, redistest.Start(t))
		r := &Request{Key: []byte("k"), Op: op, Buckets: 1, Cost: 1, N: 1, Windows: [MaxWindows]Window{{3, 60_000}}}
		require.EqualValues(t, 2, w.ask(testBase, r, false, 2))
		r.Cost = 0
		require.EqualValues(t, 5, w.ask(testBase, r, false, 5))
		require.True(t, w.last.short)
	}
}

// A record of six logs with 20 entries each is the first that is too long for one piece.
func TestShortWayOfWindowsEndsWithOnePiece(t *testing.T) {
	w := newWays(t, redistest.Start(t))
	r := &Request{Key: []byte("k"), Op: OpSlide, Buckets: 1, Cost: 1, N: 6}
	for i := range r.N {
		r.Windows[i] = Window{1000, 60_000 + int64(i)}
	}
	for i := range int64(20) {
		require.EqualValues(t, 1, w.ask(testBase+i, r, false, 1))
		require.Equal(t, byWay{i < 19, atNode, OpSlide, i == 19}, w.last)
	}
}

// Logs with slots to spare in a record that is short enough for one piece, as no script writes it, are read as what they are.
func TestShortWayOfWindowsSeesSpareSlots(t *testing.T) {
	w := newWays(t, redistest.Start(t))
	r := &Request{Key: []byte("k"), Op: OpSlide, Buckets: 1, Cost: 1, N: 4}
	for i := range r.N {
		r.Windows[i] = Window{11, 60_000 + int64(i)}
	}
	for i := range int64(10) {
		w.ask(testBase+i, r, false, 1)
	}
	const head, header, entry, spare = 4 + 4*50, 50, 12, 6
	record := w.stored("k")[0].(string)
	require.Len(t, record, head+4*10*entry)
	spaced := []byte(record[:head])
	for i := range 4 {
		spaced[4+i*header+31] += spare // the number of slots
		logs := record[head:]
		spaced = append(spaced, logs[i*10*entry:(i+1)*10*entry]...)
		spaced = append(spaced, make([]byte, spare*entry)...)
	}
	require.False(t, tooLong(string(spaced)))
	for _, key := range []string{"k", twin("k")} {
		require.NoError(t, w.server.Client.SetArgs(t.Context(), key, spaced, redis.SetArgs{KeepTTL: true}).Err())
	}
	require.EqualValues(t, 1, w.ask(testBase+20, r, false, 1))
	require.False(t, w.last.short)
	require.EqualValues(t, 0, w.ask(testBase+21, r, false, 1))
	for i := range r.N { // one piece again
		r.Windows[i].Limit = 15
	}
	require.EqualValues(t, 2, w.ask(testBase+22, r, false, 2))
	require.True(t, w.last.short)
}

// The entries of one call have different questions, and write different times to live.
func TestBatchOfDifferentQuestions(t *testing.T) {
	w := newWays(t, redistest.Start(t))
	decide := redis.NewScript(lua.Decide.Source)
	var keys, twins []string
	var entries []byte
	var questions []any
	for i, op := range []Op{OpSlide, OpCounter, OpFixed, OpSlide, OpCounter} {
		for j := range 3 {
			r := &Request{Op: op, Buckets: 1, Cost: 1, N: 1 + i%2}
			for k := range r.N {
				r.Windows[k] = Window{1_000_000, int64(1000 * (1 + j + 3*k))}
			}
			q := r.question()
			questions = append(questions, string(q.append(nil)))
			key := "k" + strconv.Itoa(len(keys))
			keys, twins = append(keys, key), append(twins, twin(key))
			entries = appendUint(appendUint(entries, int64(2+len(questions)), 2), 1, 4)
		}
	}
	ask := func(clock int64, keys []string, entries string, questions []any) string {
		args := append([]any{strconv.FormatInt(clock, 10), entries}, questions...)
		reply, err := decide.Run(t.Context(), w.server.Client, keys, args...).Text()
		require.NoError(t, err)
		return reply
	}
	for i := range int64(80) { // the logs with one window become too long for one piece
		clock := testBase + 7*i
		reply := ask(clock, keys, string(entries), questions)[6:]
		for k, twin := range twins {
			alone := ask(clock, []string{twin}, "", questions[k:k+1])[6:]
			require.Equal(t, alone, reply[:len(alone)], "%s at %d", twin, i)
			reply = reply[len(alone):]
			require.Equal(t, w.stored(twin), w.stored(keys[k]), "%s at %d", twin, i)
		}
		require.Empty(t, reply)
	}
}

// States that were not charged by the same calls go the long way, until a pause has made
// their counts of calls alike.
func TestShortWayOfWindowsNeedsEqualCounts(t *testing.T) {
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		w := newWays(t, redistest.Start(t))
		r := &Request{Key: []byte("k"), Op: op, Buckets: 1, Cost: 1, N: 2}
		r.Windows[0], r.Windows[1] = Window{1000, 60_000}, Window{1000, 70_000}
		ask := func(clock int64, short bool) {
			require.EqualValues(t, 1, w.ask(testBase+clock, r, false, 1))
			require.Equal(t, short, w.last.short, "%v at %d", op, clock)
		}
		ask(0, true)
		r.N = 1
		ask(1, false)
		r.N = 2
		ask(2, false)
		ask(3, false)
		ask(3000, false)
		ask(3001, true)
	}
}

// Long logs that become shorter little by little are written anew at last.
func TestShortWayOfWindowsLeavesRebuilding(t *testing.T) {
	w := newWays(t, redistest.Start(t))
	r := &Request{Key: []byte("k"), Op: OpSlide, Buckets: 1, Cost: 1, N: 2}
	r.Windows[0], r.Windows[1] = Window{1000, 1000}, Window{1000, 1010}
	clock := int64(testBase)
	for range 300 {
		w.ask(clock, r, false, 1)
		clock++
	}
	clock += 700
	full := len(w.stored("k")[0].(string))
	for len(w.stored("k")[0].(string)) == full {
		require.Less(t, clock, int64(testBase)+1500)
		require.EqualValues(t, 1, w.ask(clock, r, false, 1))
		clock += 10
	}
	require.False(t, w.last.short)
}

// windowsWalk asks one key at random, mostly the same question of n windows.
func windowsWalk(w *ways, op Op, n int, rng *rand.Rand) {
	r := &Request{Key: []byte("k"), Op: op, Buckets: 1, Cost: 1, N: n, Strict: rng.IntN(3) == 0}
	for i := range r.N {
		// A second or less, and up to some hundred; limits near to what is asked, and some
		// for which a log has a grid.
		length := int64(100*(i+1)) << rng.IntN(10)
		limit := 1 + length/20 + rng.Int64N(20)
		if rng.IntN(4) == 0 {
			length, limit = length*1000, 100_000+rng.Int64N(5)
		}
		r.Windows[i] = Window{limit, length + int64(i)}
	}
	step := int64(1) << rng.IntN(8)
	clock := int64(testBase)
	for range 400 {
		asked := *r
		switch rng.IntN(300) {
		case 0: // states that were charged by other calls than the others: the long way until there is a pause
			asked.N = 1 + rng.IntN(r.N)
		case 1: // a state of another kind: the long way while it lives
			asked.Op, asked.N, asked.Windows[0].Length = OpFixed, 1, step
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
		}
		w.ask(clock, &asked, false, 1+rng.Int64N(3))
		clock += rng.Int64N(2 * step)
	}
}
