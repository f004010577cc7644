package engine

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// ways runs scripts and holds the short way of a decision to the long one: each key has
// a twin for which there is no short way, and both must say and store the same.
type ways struct {
	t         *testing.T
	server    *redistest.Server
	longOnly  *redis.Script   // lua.Decide without the short way
	shortOnly *redis.Script   // lua.Decide without the long way: it fails there, and has written nothing
	short     map[byWay]int   // decisions by the short way
	last      byWay           // the last decision
	others    []*redis.Script // lua.All
}

// byWay is by which way a decision was made, and about what.
type byWay struct {
	short  bool
	status byte // of the reply: atNode, atHome, atPart
	op     Op
	long   bool // the record is too long for one piece
}

func newWays(t *testing.T, server *redistest.Server) *ways {
	w := &ways{t: t, server: server, short: map[byWay]int{}}
	without := func(text, instead string) *redis.Script {
		require.Equal(t, 1, strings.Count(lua.Decide.Source, text), text)
		return redis.NewScript(strings.Replace(lua.Decide.Source, text, instead, 1))
	}
	w.longOnly = without("if length > 10 and length % 10 == 0 then", "if false then")
	w.shortOnly = without("long = long or long_of(clock)", "error('the long way')")
	for _, s := range lua.All {
		w.others = append(w.others, redis.NewScript(s.Source))
	}
	return w
}

func (w *ways) eval(s *redis.Script, key string, args []any) string {
	reply, err := s.Run(context.Background(), w.server.Client, []string{key}, args...).Text()
	require.NoError(w.t, err)
	return reply
}

// tooLong tells whether a record is not kept in one piece, by the length of its head.
func tooLong(record string) bool {
	if record == "" {
		return false
	}
	head := int(record[1])<<16 | int(record[2])<<8 | int(record[3])
	return len(record) >= 512+7*max(head-129, 0)
}

// stored is all that the node knows of a key.
func (w *ways) stored(key string) [2]any {
	ctx := context.Background()
	text, err := w.server.Client.Get(ctx, key).Result()
	if err != nil {
		require.ErrorIs(w.t, err, redis.Nil)
	}
	return [2]any{text, w.server.Client.PExpireTime(ctx, key).Val()}
}

func twin(key string) string { return key + "twin" }

// run runs a script on a key and its twin, and returns the reply.
func (w *ways) run(script *lua.Script, key string, clock int64, args ...any) string {
	args = append([]any{strconv.FormatInt(clock, 10)}, args...)
	var itself *redis.Script
	for i, s := range lua.All {
		if s == script {
			itself = w.others[i]
		}
	}
	if script != lua.Decide {
		reply := w.eval(itself, key, args)
		require.Equal(w.t, w.eval(itself, twin(key), args), reply, script.Name)
		require.Equal(w.t, w.stored(twin(key)), w.stored(key), script.Name)
		return reply
	}
	const probe = "probe"
	require.NoError(w.t, w.server.Client.Del(context.Background(), probe).Err())
	w.server.Do("COPY", key, probe)
	probed := w.eval(w.shortOnly, probe, args)
	reply := w.eval(itself, key, args)
	require.Equal(w.t, w.eval(w.longOnly, twin(key), args), reply, "%q", args)
	require.Equal(w.t, w.stored(twin(key)), w.stored(key), "%q", args)
	question := args[2].(string)
	w.last = byWay{true, reply[6], Op(question[7]), tooLong(w.stored(key)[0].(string))}
	if probed[6] == failedEntry {
		w.last.short = false
		return reply
	}
	require.Equal(w.t, probed, reply)
	w.short[w.last]++
	return reply
}

// ask asks the request's key, as a part or not, and returns how many are granted.
func (w *ways) ask(clock int64, r *Request, part bool, n int64) int64 {
	q := r.question()
	q.part = part
	reply := reader{w.run(lua.Decide, string(r.Key), clock, string(appendUint(appendUint(nil, 3, 2), n, 4)), string(q.append(nil))), true}
	reply.uint(6)
	switch reply.uint(1) {
	case atHome:
		reply.uint(3)
	case failedEntry:
		require.Fail(w.t, reply.s)
	}
	return reply.uint(4)
}

// lend asks the request's key, the home of so many parts, for one, and for a loan to a part that missed.
func (w *ways) lend(clock int64, r *Request, part, parts int) {
	q, miss := r.question(), missed{Miss: shard.Miss{Part: part, Clock: clock, Born: testBase, Seq: 1}}
	w.run(lua.Lend, string(r.Key), clock, string(appendUint(appendUint(nil, 1, 4), int64(parts), 2)), string(q.append(nil)), string(miss.pack()), "", "")
}

// The front of a part's note holds from when its loan was taken until before the lease's
// end, and for no more than is held.
func TestSplitShortWayAtPart(t *testing.T) {
	const window = 60_000
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		t.Run(op.String(), func(t *testing.T) {
			w := newWays(t, redistest.Start(t))
			r := &Request{Key: []byte("k"), Op: op, Buckets: 1, Cost: 1, N: 1, Windows: [MaxWindows]Window{{100, window}}}
			lend := func(clock, held int64) {
				loan := shard.Loan{Seq: clock * 1000, Born: testBase, Clock: clock, Pairs: r.pairs(), Held: []int64{held}, Rest: []int64{7}}
				require.Equal(t, "\x01", w.run(lua.Take, "k", clock, string(appendLoan(nil, &loan))))
			}
			ask := func(clock, n, granted int64, short bool) {
				require.Equal(t, granted, w.ask(clock, r, true, n), "at %d", clock-testBase)
				require.Equal(t, short, w.last.short, "at %d", clock-testBase)
			}
			r.N, r.Windows[1] = 2, Window{100, 2 * window}
			ask(testBase, 1, 0, false)
			r.N = 1
			ask(testBase, 1, 0, false)
			lend(testBase, 10)
			ask(testBase+1, 1, 1, false) // makes the state
			ask(testBase+2, 1, 1, true)
			lend(testBase+20, 20)
			ask(testBase+19, 1, 0, false) // the clock went back behind the loan
			ask(testBase+20, 1, 1, true)
			ask(testBase+500, 17, 17, true)
			ask(testBase+501, 1, 0, false) // all that it holds is in use
			lend(testBase+600, 25)
			ask(testBase+601, 6, 5, false) // a part of them
			lend(testBase+700, 93)
			ask(testBase+1699, 1, 1, true)
			ask(testBase+1700, 1, 0, false) // the lease is over
			lend(testBase+1800, 93)
			ask(testBase+1810, 1, 1, true)
			ask(testBase+1805, 1, 0, false) // the clock went back behind the last charge
			r.Windows[0].Limit++
			ask(testBase+1811, 1, 0, false) // lent for another limit
			r.Windows[0].Limit--
			r.Strict = true
			ask(testBase+1811, 1, 0, false) // and for another way to count
			r.Strict, r.Windows[0].Length = false, window/2
			lend(testBase+1900, 93)
			ask(testBase+1901, 1, 1, false) // the record's state is of another window
			ask(testBase+1902, 1, 1, false) // two states
			r.Windows[0].Length = window
			lend(testBase+2000, 93)
			ask(testBase+2001, 1, 1, false) // the first of two
		})
	}
}

// A home that has lent to many parts has a long note, which is no reason to go the long way.
func TestSplitShortWayAtHomeOfMany(t *testing.T) {
	const parts = 40
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		t.Run(op.String(), func(t *testing.T) {
			w := newWays(t, redistest.Start(t))
			r := &Request{Key: []byte("k"), Op: op, Buckets: 1, Cost: 1, N: 1, Windows: [MaxWindows]Window{{1_000_000, 60_000}}}
			for part := range parts - 1 {
				w.lend(testBase+int64(part), r, part+1, parts)
			}
			for i := range int64(3) {
				require.EqualValues(t, 1, w.ask(testBase+100+i, r, false, 1))
				require.Equal(t, byWay{true, atHome, op, true}, w.last)
			}
		})
	}
}

// The front of a home's note holds until the first loan lapses, for what is not lent.
func TestSplitShortWayAtHome(t *testing.T) {
	const window = 500
	for _, op := range []Op{OpSlide, OpCounter, OpFixed} {
		t.Run(op.String(), func(t *testing.T) {
			w := newWays(t, redistest.Start(t))
			r := &Request{Key: []byte("k"), Op: op, Buckets: 1, Cost: 1, N: 1, Windows: [MaxWindows]Window{{100, window}}}
			ask := func(clock, n, granted int64, short bool) {
				require.Equal(t, granted, w.ask(clock, r, false, n), "at %d", clock-testBase)
				require.Equal(t, short, w.last.short, "at %d", clock-testBase)
			}
			w.lend(testBase, r, 1, 4)     // 1 is granted, 24 are lent
			w.lend(testBase+200, r, 2, 4) // 1 more, 18
			ask(testBase+201, 1, 1, true)
			require.EqualValues(t, atHome, w.last.status)
			ask(testBase+202, 56, 55, false) // all but one
			lapse := testBase + splitRules.Lease + r.pairs()[0].Life()
			if op == OpCounter { // in whose script every counter has a sub-window more
				lapse = testBase + splitRules.Lease + 2*window
			}
			ask(lapse-1, 1, 1, true)
			ask(lapse, 1, 1, true)
			ask(lapse+1, 1, 1, false)
			ask(lapse+2, 0, 0, false)
			r.Cost = 0
			ask(lapse, 1, 1, false) // asks the parts
			r.Cost, r.Windows[0].Limit = 1, 99
			ask(lapse, 1, 1, false)
		})
	}
}
