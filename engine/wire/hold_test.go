package wire

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// reserve returns a request of cost 3 that holds units under an id.
func reserve() engine.Request {
	r := slide("k", 10)
	r.Cost, r.Hold = 3, &engine.Hold{ID: engine.DigestOf([]byte("a")), TTL: 500, Release: true}
	return r
}

func TestHoldArgs(t *testing.T) {
	r := reserve()
	id := engine.DigestOf([]byte("a"))
	fields := join([]byte{2}, id[:], bytesOf(5, 500, 1, 1))
	require.Equal(t, fields, string(IDFields(&r)))
	args := AdmitArgs(&r)
	require.Equal(t, []string{join(bytesOf(6, 3, 1, 0, 1, 1, 5, 1, 5, 1000, 5, 10)), fields}, []string{string(args[0]), string(args[1])})
	require.Equal(t, join([]byte{2}, id[:], bytesOf(6, 3)), string(SettleArgs(&r)[0]))
	require.Equal(t, [][]byte{args[0], args[0]}, AllArgs([]engine.Request{r, r}))

	once := r
	once.Hold = &engine.Hold{ID: id, Once: true}
	require.Equal(t, join([]byte{1}, id[:], bytesOf(5, 0, 1, 0)), string(IDFields(&once)))

	r.Hold.Release = false
	require.Equal(t, join([]byte{2}, id[:], bytesOf(5, 500, 1, 0)), string(IDFields(&r)))
	r.Kind = limit.Concurrency
	require.Equal(t, join([]byte{3}, id[:], bytesOf(5, 500, 1, 1)), string(IDFields(&r)), "slots are never charged")
	require.Equal(t, join([]byte{3}, id[:], bytesOf(6, 3)), string(SettleArgs(&r)[0]))
	renewal := r
	renewal.Op = engine.OpRenew
	require.Equal(t, append([][]byte{[]byte(join(id[:], bytesOf(5, 500))), []byte("renew")}, AdmitArgs(&r)...), EachArgs([]*engine.Request{&renewal, &r}))
}

func TestDecodeAdmit(t *testing.T) {
	r := reserve()
	entry := join(bytesOf(6, clock, 1, int64(AtNode), 4, 1, 3, 7), usage(2, 0, 40))
	a, err := DecodeAdmit("\x00"+entry, &r)
	require.NoError(t, err)
	require.Equal(t, Admitted{Clock: clock, Spec: r.Spec,
		Answer: Answer{Requests: 1, Granted: 1, Rate: 7, Usages: []limit.Usage{{Used: 2, Empty: 40}}}}, a)
	require.Equal(t, limit.Decision{Allowed: true, Limit: 10, Remaining: 5, ResetAfter: 40}, a.Decision())

	a, err = DecodeAdmit(join([]byte{0}, bytesOf(6, clock, 1, int64(held), 3, 5, 4, 0, 3, 7), usage(8, 30, 40)), &r)
	require.NoError(t, err)
	require.True(t, a.Held)
	require.EqualValues(t, 5, a.Lapsed)
	require.Equal(t, limit.Decision{Limit: 10, Remaining: 2, RetryAfter: 30, ResetAfter: 40}, a.Decision())

	// The first request with the id had two windows and another cost.
	first := bytesOf(6, 4, 1, 0, 1, 1, 5, 1, 5, 1000, 5, 20, 5, 2000, 5, 30)
	again := join(bytesOf(1, 1, 1, int64(len(first))), first, bytesOf(1, 0, 6, clock-9, 1, int64(held), 3, 5, 4, 1, 3, 7), usage(2, 0, 992), usage(3, 0, 992))
	a, err = DecodeAdmit(again, &r)
	require.NoError(t, err)
	require.True(t, a.Again)
	require.Zero(t, a.Lapsed, "the first answer counted them")
	require.Equal(t, limit.Decision{Allowed: true, Limit: 20, Remaining: 14, ResetAfter: 1001}, a.Decision())
	h, known, err := DecodeHomeAdmit(string(Pack(&Lent{Known: again})), &r, nil)
	require.NoError(t, err)
	require.Nil(t, h)
	require.Equal(t, &a, known)

	slots := reserve()
	slots.Kind, slots.Windows[0].Length = limit.Concurrency, 0
	timeless := bytesOf(1, 0, 4, 1, 3, 7, 6, 2, 6, 0, 6, 0, 6, 0) // as usage does, but of any clock
	for name, reply := range map[string]string{
		"empty":                 "",
		"another byte":          "\x02" + entry,
		"longer":                "\x00" + entry + "\x00",
		"shorter":               "\x00" + entry[:len(entry)-1],
		"no clock":              join([]byte{0}, bytesOf(6, 0), timeless),
		"a far clock":           join([]byte{0}, bytesOf(6, maxClock+1), timeless),
		"failed":                "\x00" + entry[:6] + "\x01\x00\x00",
		"a spec of no windows":  "\x01\x0a" + string(first[:10]) + "\x00" + entry,
		"a spec without cost":   "\x01\x14" + "\x00\x00\x00\x00\x00\x00" + string(first[6:20]) + "\x00" + entry,
		"a spec that ends":      "\x01\x13" + string(first[:19]) + "\x00" + entry,
		"a spec of slots":       "\x01\x14" + string(first[:7]) + "\x08" + string(first[8:20]) + "\x00" + entry,
		"a denial again":        "\x01\x14" + string(first[:20]) + "\x00" + join(bytesOf(6, clock, 1, 0, 4, 0, 3, 0), usage(20, 30, 0)),
		"again and again":       "\x01\x14" + string(first[:20]) + "\x01" + entry,
		"nine windows":          "\x01\x64" + string(first[:20]) + join(make([]byte, 80)) + "\x00" + entry,
		"granted more than one": "\x00" + join(bytesOf(6, clock, 1, 0, 4, 2, 3, 0), usage(0, 0, 0)),
	} {
		_, err := DecodeAdmit(reply, &r)
		require.Error(t, err, name)
	}
	_, err = DecodeAdmit(again, &slots)
	require.ErrorIs(t, err, errInconsistent, "ids of different kinds are independent")
	part := reserve()
	part.Hold.MultiKey = true
	_, err = DecodeAdmit(again, &part)
	require.ErrorIs(t, err, errInconsistent, "no node can know the id of a multi-key request, which is random")
}

func TestDecodeHomeAdmit(t *testing.T) {
	r := reserve()
	home := HomeReply{Clock: clock, Rate: 7, Shards: 4, Held: true, Lapsed: 2, Tallies: []Tally{{Used: 3, Own: 3, First: 9, Empty: clock}}}
	home.Granted = 1
	h, known, err := DecodeHomeAdmit(string(Pack(&Lent{Home: &home})), &r, nil)
	require.NoError(t, err)
	require.Nil(t, known)
	home.Tallies[0].Empty = 0
	require.Equal(t, &home, h)
	home.Granted = 2
	_, _, err = DecodeHomeAdmit(string(Pack(&Lent{Home: &home})), &r, nil)
	require.ErrorIs(t, err, errInconsistent)
	for _, bad := range []Lent{{}, {Known: "\x00"}, {Known: "\x01"}, {Known: "\x01", Home: &home}} {
		_, _, err = DecodeHomeAdmit(string(Pack(&bad)), &r, nil)
		require.Error(t, err)
	}
	_, _, err = DecodeHomeAdmit("", &r, nil)
	require.ErrorIs(t, err, errMalformed)
}

func TestDecodeSettle(t *testing.T) {
	s, lapsed, err := DecodeSettle(join(bytesOf(1, 1, 6, 3, 6, 2, 6, 0, 3, 4)))
	require.NoError(t, err)
	require.EqualValues(t, 4, lapsed)
	require.Equal(t, engine.Settlement{Settled: true, Charged: 3, Returned: 2}, s)
	s, _, err = DecodeSettle(join(bytesOf(1, 2, 6, 5, 6, 0, 6, 2, 3, 0)))
	require.NoError(t, err)
	require.Equal(t, engine.Settlement{Settled: true, Again: true, Charged: 5, Overrun: 2}, s)
	s, _, err = DecodeSettle(join(make([]byte, 22)))
	require.NoError(t, err)
	require.Equal(t, engine.Settlement{}, s)
	for name, bad := range map[string][]byte{
		"short":                         bytesOf(1, 1, 6, 3),
		"another byte":                  bytesOf(1, 3, 6, 3, 6, 2, 6, 0, 3, 4),
		"more than a request can cost":  bytesOf(1, 1, 6, limit.MaxLimit+1, 6, 0, 6, 0, 3, 0),
		"more overrun than charged":     bytesOf(1, 1, 6, 1, 6, 0, 6, 2, 3, 0),
		"given back, and beyond":        bytesOf(1, 1, 6, 5, 6, 1, 6, 2, 3, 0),
		"charged though it had lapsed":  bytesOf(1, 0, 6, 5, 6, 0, 6, 0, 3, 0),
		"returned though it had lapsed": bytesOf(1, 0, 6, 0, 6, 5, 6, 0, 3, 0),
	} {
		_, _, err := DecodeSettle(string(bad))
		require.Error(t, err, name)
	}
}

func TestDecodeEach(t *testing.T) {
	all, err := DecodeEach("\x00\x02ab\x80\x03ERR\x00\x01c", 3)
	require.NoError(t, err)
	require.Equal(t, []Each{{Reply: "ab"}, {Failure: "ERR"}, {Reply: "c"}}, all)
	for _, wrong := range []string{"", "\x00\x02ab", "\x00\x02ab\x80\x00\x00\x01c", "\x00\x02ab\x80\x03ER", "\x00\x02ab\x00\x00\x00\x02c", "\x00\x02ab\x00\x00\x00\x01cd", "\x00\x02ab\x00\x00\x00\x01"} {
		_, err = DecodeEach(wrong, 3)
		require.Error(t, err, "%q", wrong)
	}
}

func TestDecodeRenew(t *testing.T) {
	for reply, want := range map[string]bool{"\x00\x00\x00\x02": false, "\x01\x00\x00\x02": true} {
		renewed, lapsed, err := DecodeRenew(reply)
		require.NoError(t, err)
		require.Equal(t, want, renewed)
		require.EqualValues(t, 2, lapsed)
	}
	for _, wrong := range []string{"", "\x01", "\x02\x00\x00\x00", "\x01\x00\x00\x00\x00"} {
		_, _, err := DecodeRenew(wrong)
		require.ErrorIs(t, err, errMalformed)
	}
}

func TestDecodeAll(t *testing.T) {
	requests := []engine.Request{slide("a", 10), slide("b", 5)}
	granted := join(bytesOf(1, 0, 4, 1, 3, 7), usage(2, 0, 900))
	denied := join(bytesOf(1, 0, 4, 0, 3, 7), usage(5, 30, 900))
	answers, at, all, err := DecodeAll(join(bytesOf(6, clock, 1, 1))+granted+granted, requests)
	require.NoError(t, err)
	require.True(t, all)
	require.EqualValues(t, clock, at)
	require.EqualValues(t, 1, answers[1].Granted)
	answers, _, all, err = DecodeAll(join(bytesOf(6, clock, 1, 0))+granted+denied, requests)
	require.NoError(t, err)
	require.False(t, all)
	require.Equal(t, []Answer{{Requests: 1, Granted: 1, Rate: 7, Usages: []limit.Usage{{Used: 2, Empty: 900}}},
		{Requests: 1, Rate: 7, Usages: []limit.Usage{{Used: 5, Room: 30, Empty: 900}}}}, answers)
	yes := join(bytesOf(6, clock, 1, 1))
	timeless := bytesOf(1, 0, 4, 1, 3, 7, 6, 2, 6, 0, 6, 0, 6, 0) // as usage does, but of any clock
	for name, bad := range map[string]string{
		"nothing":                         "",
		"an answer too few":               yes + granted,
		"more than the answers":           yes + granted + granted + "\x00",
		"all granted, but not the first":  yes + denied + granted,
		"all granted, but not the second": yes + granted + denied,
		"all granted, but one failed":     yes + granted + "\x01\x00\x01x",
		"no clock":                        join(bytesOf(6, 0, 1, 1), timeless, timeless),
		"a far clock":                     join(bytesOf(6, maxClock+1, 1, 1), timeless, timeless),
	} {
		_, _, _, err = DecodeAll(bad, requests)
		require.Error(t, err, name)
	}
}

func TestKeyErrorsOfHolds(t *testing.T) {
	for _, known := range []error{engine.ErrIDs, engine.ErrHolds, engine.ErrSlotHolds, engine.ErrOverrun} {
		require.Equal(t, known, KeyError(known.Error()+" script: rl_admit, on @user_function:1."))
	}
	require.NoError(t, KeyError("ERR another"))
}

// Whatever a node replies about holds, decoding returns an error or a valid decision.
func FuzzDecodeHold(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(join([]byte{0}, bytesOf(6, clock, 1, 4, 3, 5, 4, 0, 3, 7), usage(8, 30, 40))))
	f.Add([]byte(join(bytesOf(1, 1, 1, 23, 6, 3, 1, 0, 1, 1, 5, 1, 5, 1000, 5, 10, 6, clock, 1, 0, 4, 1, 3, 7), usage(2, 0, 40))))
	f.Add(bytesOf(1, 1, 6, 3, 6, 2, 6, 0, 3, 4))
	f.Add(Pack(&Lent{Home: &HomeReply{Clock: clock, Tallies: []Tally{{Used: 3}}}}))
	f.Fuzz(func(t *testing.T, reply []byte) {
		r := reserve()
		if a, err := DecodeAdmit(string(reply), &r); err == nil {
			d := a.Decision()
			require.GreaterOrEqual(t, d.Remaining, int64(0))
			require.GreaterOrEqual(t, d.ResetAfter, int64(0))
			require.Equal(t, a.Granted == 1, d.Allowed)
		}
		if s, _, err := DecodeSettle(string(reply)); err == nil {
			require.LessOrEqual(t, s.Overrun, s.Charged)
		}
		if answers, at, all, err := DecodeAll(string(reply), []engine.Request{r, slide("b", 5)}); err == nil {
			require.Len(t, answers, 2)
			require.Positive(t, at)
			require.False(t, all && answers[0].Granted+answers[1].Granted < 2)
		}
		_, _, _ = DecodeHomeAdmit(string(reply), &r, new(lease.Refusal))
	})
}
