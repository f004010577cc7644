package wire

import (
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	c := call(0, slide("a", 10), slide("a", 10), slide("b", 5), slide("d", 5), slide("e", 5))
	reply := join(bytesOf(6, clock),
		bytesOf(1, int64(AtNode), 4, 2, 3, 7), usage(3, 0, 1001),
		bytesOf(1, int64(AtNode), 4, 0, 3, 0), usage(5, 40, 41),
		bytesOf(1, int64(Failed), 2, 5), []byte("WRONG"),
		bytesOf(1, int64(AtHome), 2, 4, 1, 1, 4, 0, 3, 9), usage(5, 0, 1001))
	_, _, err := c.Decode(reply)
	require.NoError(t, err)
	answers, at, err := c.Decode(reply) // a call is used again
	require.NoError(t, err)
	require.EqualValues(t, clock, at)
	require.Equal(t, []Answer{
		{Status: AtNode, Requests: 2, Granted: 2, Rate: 7, Usages: []limit.Usage{{Used: 3, Empty: 1001}}},
		{Status: AtNode, Requests: 1, Usages: []limit.Usage{{Used: 5, Room: 40, Empty: 41}}},
		{Status: Failed, Requests: 1, Failure: "WRONG"},
		{Status: AtHome, Requests: 1, Shards: 4, Undecided: true, Rate: 9, Usages: []limit.Usage{{Used: 5, Empty: 1001}}},
	}, answers)

	c = call(0, conformance.Reset("c"))
	answers, _, err = c.Decode(join(bytesOf(6, clock, 1, int64(AtNode), 4, 1, 3, 0)))
	require.NoError(t, err)
	require.Equal(t, []Answer{{Status: AtNode, Requests: 1, Granted: 1}}, answers)
}

// Servers word differently that they do not serve a key.
func TestNotHere(t *testing.T) {
	for _, failure := range []string{
		"ERR Script attempted to access a non local key in a cluster node", // Redis, and Valkey before 9.1
		"ERR Script attempted to execute a command while the cluster is down",
		"ERR Script attempted to execute a write command while the cluster is down and readonly",
		"ERR Attempted to access a non local key in a cluster node", // Valkey 9.1
		"ERR Can not execute a command 'GETRANGE' while the cluster is down",
		"ERR Can not execute a write command 'SETRANGE' while the cluster is down and readonly",
	} {
		require.True(t, NotHere(failure), failure)
	}
	for _, failure := range []string{"", "WRONG", "ERR too many ids for this key", "OOM command not allowed when used memory > 'maxmemory'."} {
		require.False(t, NotHere(failure), failure)
	}
}

func TestDecodeRefusalOfAShard(t *testing.T) {
	c := call(1, slide("a", 10), slide("a", 10), slide("a", 10))
	at := func(granted int64, refusal string) (*Refusal, error) {
		answers, _, err := c.Decode(join(bytesOf(6, clock, 1, int64(AtShard), 4, granted, 3, 0), usage(9, 0, 0), bytesOf(2, int64(len(refusal))), []byte(refusal)))
		if err != nil {
			return nil, err
		}
		return answers[0].Refusal, nil
	}
	want := Refusal{lease.Refusal{Clock: clock - 1, Incarnation: 77, Seq: 1 << 50, LeaseEnded: true}, []int64{250}}
	want.Used = []lease.Units{{StateName: lease.StateName{Kind: 1, Window: 1000}, N: 4}}
	refusal := string(Pack(&want))
	f, err := at(1, refusal)
	require.NoError(t, err)
	require.Equal(t, &want, f)
	live := Refusal{Refusal: lease.Refusal{Clock: clock, Incarnation: 77, Seq: 9}}
	f, err = at(0, string(Pack(&live)))
	require.NoError(t, err)
	require.Equal(t, &live, f, "the lease has not ended")
	f, err = at(3, "")
	require.NoError(t, err)
	require.Nil(t, f, "all were granted")
	for _, bad := range []string{"", refusal[:10], refusal[:len(refusal)-1], refusal + "\x00"} {
		_, err = at(0, bad)
		require.ErrorIs(t, err, errMalformed)
	}
	live.Used, live.First = want.Used, want.First
	for _, bad := range []*Refusal{&live, {Refusal: want.Refusal}, {lease.Refusal{LeaseEnded: true}, []int64{250}}} {
		_, err = at(0, string(Pack(bad)))
		require.ErrorIs(t, err, errInconsistent, "%v", bad)
	}
}

// A reply that no function of the library makes is an error, and Decode returns none of its
// answers.
func TestDecodeRefusesMalformedReplies(t *testing.T) {
	c := call(0, slide("a", 10))
	good := join(bytesOf(6, clock, 1, int64(AtNode), 4, 1, 3, 0), usage(3, 0, 1001))
	_, _, err := c.Decode(good)
	require.NoError(t, err)
	for name, reply := range map[string]string{
		"nothing":                             "",
		"too short":                           good[:len(good)-1],
		"too long":                            good + "\x00",
		"zeros":                               string(make([]byte, len(good)-1)) + "\x00\x00",
		"an unknown status":                   good[:6] + "\x09" + good[7:],
		"a home that answers as a shard does": join(bytesOf(6, clock, 1, int64(AtShard), 4, 3, 3, 0), usage(3, 0, 1001), bytesOf(2, 0)),
		"no clock":                            "\x00\x00\x00\x00\x00\x00" + good[6:],
		"a far clock":                         join(bytesOf(6, 1<<44, 1, int64(AtNode), 4, 1, 3, 0), usage(3, 0, 1001)),
	} {
		_, _, err := c.Decode(reply)
		require.Error(t, err, name)
	}
	_, _, err = call(1, slide("k", 10)).Decode(good)
	require.ErrorIs(t, err, errInconsistent, "a shard that answers as a node does")
	require.Error(t, second(c.Decode(string(make([]byte, len(good))))), "zeros of the right length")
}

// An answer that contradicts itself fails without affecting the other answers of the reply.
func TestDecodeFailsOneAnswer(t *testing.T) {
	c := call(0, slide("a", 10), slide("b", 10), slide("c", 10))
	good := join(bytesOf(1, int64(AtNode), 4, 1, 3, 0), usage(3, 0, 1001))
	for name, bad := range map[string]string{
		"more than asked for": join(bytesOf(1, int64(AtNode), 4, 2, 3, 0), usage(3, 0, 1001)),
		"more, and a denial":  join(bytesOf(1, int64(AtNode), 4, 2, 3, 0), usage(10, 5, 0)),
		"a home's decision":   join(bytesOf(1, int64(AtHome), 2, 4, 1, 0, 4, 0, 3, 0), usage(3, 0, 1001)),
		"denied with room":    join(bytesOf(1, int64(AtNode), 4, 0, 3, 0), usage(3, 0, 1001)),
		"a huge use":          join(bytesOf(1, int64(AtNode), 4, 0, 3, 0), usage(1<<47, 5, 0)),
		"a far retry":         join(bytesOf(1, int64(AtNode), 4, 0, 3, 0), usage(10, maxDelay+1, 0)),
		"a far end":           join(bytesOf(1, int64(AtNode), 4, 1, 3, 0), usage(3, 0, maxDelay+1)),
	} {
		answers, _, err := c.Decode(string(bytesOf(6, clock)) + good + bad + good)
		require.NoError(t, err, name)
		require.Equal(t, Answer{Status: Failed, Failure: errInconsistent.Error(), MaybeApplied: true, Requests: 1}, answers[1], name)
		for _, i := range []int{0, 2} {
			require.EqualValues(t, 1, answers[i].Granted, name)
			require.Equal(t, []limit.Usage{{Used: 3, Empty: 1001}}, answers[i].Usages, name)
		}
	}
}

func TestDecodeFailsARateThatDrainsTooLate(t *testing.T) {
	c := call(0, conformance.Throttle("k", 15, 30, 60, 1))
	for last, want := range map[int64]Status{maxDelay: AtNode, maxDelay + 1: Failed} {
		answers, _, err := c.Decode(join(bytesOf(6, clock, 1, int64(AtNode), 4, 1, 3, 0), usage(3, 0, last)))
		require.NoError(t, err)
		require.Equal(t, want, answers[0].Status)
	}
}

// Errors about the state of a key are passed to the client, without the suffix that Redis adds.
func TestKeyError(t *testing.T) {
	const damaged = "ERR the stored record of 'rl:{a script: b}' is damaged: it has 2 bytes; RL.RESET removes it"
	require.EqualError(t, KeyError(damaged+" script: rl_lend_0123456789ab, on @user_function:145."), damaged)
	require.EqualError(t, KeyError(damaged+" script: 0123456789abcdef, on @user_script:145."), damaged)
	require.EqualError(t, KeyError(damaged), damaged)
	require.Equal(t, engine.ErrStates, KeyError(engine.ErrStates.Error()))
	require.Equal(t, engine.ErrStates, KeyError(engine.ErrStates.Error()+" script: rl_lend_0123456789ab, on @user_function:145."))
	for _, other := range []string{"", "ERR", "ERR the stored record of 'rl:{k}' is gone", "ERR another; RL.RESET removes it", "OOM command not allowed", "the node's reply contradicts itself", "ERR Script attempted to access a non local key"} {
		require.NoError(t, KeyError(other))
	}
}

func second(_ []Answer, _ int64, err error) error { return err }

// fuzzCall returns a call of a few random requests of every kind.
func fuzzCall(seed uint64) *Call {
	rng := rand.New(rand.NewPCG(seed, 1))
	var c Call
	for range 1 + rng.IntN(4) {
		r := slide(string(rune('a'+rng.IntN(3))), 1+rng.Int64N(20))
		switch rng.IntN(6) {
		case 0:
			r = conformance.Reset("a")
		case 1:
			r = conformance.Throttle("a", rng.Int64N(20), 1+rng.Int64N(1e9), 1+rng.Int64N(60), rng.Int64N(3))
		case 2:
			r.Kind, r.Param, r.Manner = limit.Counter, 1+rng.Int64N(10), rng.Int64N(2)
		case 3:
			r.Kind, r.N, r.Windows[1] = limit.Fixed, 2, limit.Window{Limit: 7, Length: limit.MaxWindow}
		}
		r.Cost = rng.Int64N(3)
		c.Add(&r, rng.IntN(2))
	}
	return &c
}

// Whatever a node replies, package limit turns the answers that Decode accepts into valid
// decisions.
func FuzzDecode(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), bytesOf(6, clock, 1, 0, 4, 1, 3, 0, 6, 3, 6, 0, 6, clock, 6, 0))
	f.Add(uint64(3), bytesOf(6, clock, 1, 2, 2, 4, 1, 1, 4, 0, 3, 9, 6, 5, 6, 0, 6, clock, 6, 0))
	f.Add(uint64(4), bytesOf(6, clock, 1, 3, 4, 0, 3, 0, 6, 5, 6, 0, 6, clock, 6, 0, 2, 20, 6, clock, 6, 7, 7, 9, 1, 0))
	refusal := Pack(&Refusal{Refusal: lease.Refusal{Clock: clock}})
	f.Add(uint64(4), append(bytesOf(6, clock, 1, 3, 4, 0, 3, 0, 6, 5, 6, 0, 6, clock, 6, 0, 2, int64(len(refusal))), refusal...))
	f.Fuzz(func(t *testing.T, seed uint64, reply []byte) {
		c := fuzzCall(seed)
		answers, at, err := c.Decode(string(reply))
		if err != nil {
			return
		}
		for i := range answers {
			a, s := &answers[i], &c.specs[c.entries[i].spec]
			if a.Status == Failed || s.reset {
				continue
			}
			for j := range a.Requests {
				d := s.Decide(a.Usages, at, a.Granted, j)
				require.GreaterOrEqual(t, d.Remaining, int64(0))
				require.GreaterOrEqual(t, d.ResetAfter, int64(0))
				require.GreaterOrEqual(t, d.RetryAfter, int64(-1))
				require.Equal(t, j < a.Granted, d.Allowed)
			}
		}
	})
}
