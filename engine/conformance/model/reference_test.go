package model

import (
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Each algorithm that has states has a reference, and what it admits is never more than its exactness says.
func TestReferencesAreAsExactAsTheySay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	among := func(from ...int64) int64 { return from[rng.IntN(len(from))] }
	for kind := range limit.Kind(limit.Kinds) {
		if !kind.Known() || kind == limit.Concurrency {
			require.NotContains(t, references, kind)
			continue
		}
		require.Contains(t, references, kind, "%v needs a reference", kind)
		reached, denied := 0, 0
		for range 200 {
			s := limit.Spec{Kind: kind, Param: among(1, 1, 2, 7, 1000), Manner: among(0, 1)}
			w := limit.Window{Limit: among(1, 3, 20, 70_000), Length: among(1, 7, 50, 1000, 1_000_000)}
			if kind.Rated() {
				s.Param, s.Manner, w.Length = 0, among(1, 333, 1_000_000, 70_000_001), 0
			} else if !s.ParamFits(w) {
				continue
			}
			of, us, step := Window{kind, w.Length, s.Param}, int64(4102444800000000), among(10, 3000, 1_000_000)
			var all []Charge
			for range 60 {
				us += rng.Int64N(step)
				cost := 1 + rng.Int64N(among(1, w.Limit))
				if Used(of, all, us, s.Manner)+cost > w.Limit {
					denied++
					continue
				}
				all = append(all, Charge{At: us, Units: cost, Limit: w.Limit, Manner: s.Manner})
				sum := int64(0)
				for i := len(all) - 1; i >= 0; i-- {
					sum += all[i].Units
					most := Most(of, w.Limit, s.Manner, all[i].At, us)
					require.LessOrEqual(t, sum, most, "%+v %+v", of, all)
					if sum == most {
						reached++
					}
				}
			}
		}
		require.Greater(t, reached, 100, "%v: no smaller bound would hold", kind)
		require.Greater(t, denied, 100, kind)
	}
}
