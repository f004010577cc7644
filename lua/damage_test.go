package lua

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// idFields packs the fields of an id as admit.lua reads them. The digest of the id is its text, repeated.
func idFields(what byte, id string, ttl uint64, flags byte) string {
	return string(put(append([]byte{what}, strings.Repeat(id, 16)...), ttl, 5)) + string([]byte{flags})
}

// Whatever bytes the record of a key with held units, or the hash of its ids, has, a function soon answers or fails with an
// error about this key, and a reset removes both.
func TestDamagedHoldsAreErrorsOfTheirKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	slots := spec(8, 0, 1, 1, window{0, 100})
	admit := func(q, fields string, clock int64) (string, error) { return call(s, Admit.Name, "k", clock, q, fields) }
	for i, id := range strings.Split("abcdefgh", "") {
		for _, c := range [][2]string{{all["slide"], idFields(2, id, uint64(100*i+50), byte(i%2))}, {slots, idFields(3, id, 1000, 1)}, {all["counter"], idFields(1, id, 0, 0)}} {
			_, err := admit(c[0], c[1], base+int64(i))
			require.NoError(t, err)
		}
	}
	ctx := context.Background()
	record, ids := text(t, s, "k"), s.Client.HGetAll(ctx, "k%i").Val()
	names := make([]string, 0, len(ids))
	for name := range ids {
		names = append(names, name)
	}
	answered, failed := 0, 0
	for range 6000 {
		s.Do("DEL", "k", "k%i")
		require.NoError(t, s.Client.HSet(ctx, "k%i", ids).Err())
		stored := record
		if rng.IntN(2) == 0 {
			stored = damage(rng, record)
		} else {
			name := names[rng.IntN(len(names))]
			s.Client.HSet(ctx, "k%i", name, damage(rng, ids[name]))
			if rng.IntN(50) == 0 {
				s.Do("SET", "k%i", "no hash")
			}
		}
		s.Do("SET", "k", stored)
		clock, id, before := base+rng.Int64N(1200), string(rune('a'+rng.IntN(9))), cpuTime(t, s)
		var reply string
		var err error
		switch rng.IntN(7) {
		case 0:
			_, err = admit(all["slide"], idFields(2, id, 500, 0), clock)
		case 1:
			_, err = admit(slots, idFields(3, id, 500, 1), clock)
		case 2:
			_, err = admit(all["counter"], idFields(1, id, 0, 0), clock)
		case 3:
			_, err = call(s, Settle.Name, "k", clock, "\x02"+strings.Repeat(id, 16)+string(put(nil, 1, 6)))
		case 4:
			reply, err = call(s, Each.Name, "k", clock, strings.Repeat(id, 16)+string(put(nil, 500, 5)), "renew")
			if err == nil && reply[0] >= 1<<7 {
				err = errors.New(reply)
			}
		case 5:
			_, err = call(s, Inspect.Name, "k", clock)
		case 6:
			reply, err = call(s, All.Name, "k", clock, all["slide"])
			if err == nil && reply[7] == 1 {
				require.Regexp(t, "is damaged|of this version|unknown kind", reply)
				failed++
			}
		}
		require.Less(t, cpuTime(t, s)-before, soon, "%q", stored)
		if err == nil {
			answered++
		} else {
			failed++
			require.Regexp(t, "is damaged|of this version|unknown kind|too many", err.Error(), "%q", stored)
		}
		decide(t, s, "k", clock, spec(5, 0, 0, 0))
		require.Zero(t, s.Client.Exists(ctx, "k", "k%i").Val())
	}
	t.Logf("%d answered, %d failed", answered, failed)
	require.Greater(t, failed, 500)
	require.Greater(t, answered, 500)
}
