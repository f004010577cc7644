package lua

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shard reports the units in use correctly if the recall makes its lease table so much shorter that the record, which
// has a log whose ring wraps around, is written anew.
func TestShardReportsALogThatTheRecallRewrites(t *testing.T) {
	t.Parallel()
	s := start(t)
	const key, ms = "k%p1", 500
	w := window{ms, 10_000}
	q := spec(1, 2, 1, 1, w)
	require.Equal(t, byte(3), decide(t, s, key, base, q)[0])
	loan := put(put(put(put(nil, (base+1)*1000, 7), base, 6), base+1, 6), 0, 1)
	loan = put(put(put(put(append(loan, 1, 0, 0, 0, 0, 1), w.ms, 5), w.limit, 5), 5000, 6), 5000, 6)
	reply, err := call(s, Take.Name, key, base+1, string(loan))
	require.NoError(t, err)
	require.Equal(t, "\x01", reply)
	clock := int64(base + 1)
	admit := func() {
		clock += 8
		require.Equal(t, byte(1), decide(t, s, key, clock, q)[4], "granted")
	}
	for range 90 {
		admit()
	}
	recall := "\x00" + string(put(nil, (base+1)*1000, 7)) + "\x01" + string(put([]byte{1, 0, 0, 0, 0, 1}, ms, 5))
	clock += 250 // what was admitted more than 250 ms before the last admission has left the window
	was := len(text(t, s, key))
	reply, err = call(s, Recall.Name, key, clock, recall)
	require.NoError(t, err)
	require.NotEqual(t, was, len(text(t, s, key)))
	require.EqualValues(t, 1+250/8, binary.BigEndian.Uint64([]byte("\x00\x00"+reply[26:32])))
}

// A shard takes a loan that the home made after a reset, even if the loan answers a refusal from before it, and its lease
// record then lives for as long as the home counts the loan. A loan from before the reset is void.
func TestShardTakesALoanAfterAReset(t *testing.T) {
	t.Parallel()
	s := start(t)
	const key, ms = "k%p1", 60_000
	q := spec(1, 2, 1, 1, window{ms, 100})
	require.Equal(t, byte(3), decide(t, s, key, base, q)[0])
	take := func(seq uint64) string {
		loan := put(put(put(put(nil, seq, 7), base, 6), base, 6), 0, 1)
		loan = put(put(put(put(append(loan, 1, 0, 0, 0, 0, 1), ms, 5), 100, 5), 50, 6), 50, 6)
		reply, err := call(s, Take.Name, key, base+3, string(loan))
		require.NoError(t, err)
		return reply
	}
	const before = (base + 1) * 1000
	_, err := call(s, Recall.Name, key, base+2, "\x01"+string(put(nil, before, 7))+"\x00")
	require.NoError(t, err)
	require.Equal(t, "\x00", take(before))
	require.Equal(t, "\x01", take(before+1))
	require.Equal(t, byte(1), decide(t, s, key, base+4, q)[4], "granted")
	require.GreaterOrEqual(t, s.Client.PExpireTime(t.Context(), key).Val().Milliseconds(), int64(base+1000+ms))
}
