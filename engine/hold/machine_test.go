package hold

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

// For random sequences of requests to a key, the answers are those of the model. The sequences have reservations that are
// settled with less, as much or more, late, repeatedly or never, lapses of both kinds, several windows, changed limits,
// resets, requests without an id in between, and a clock that steps back. MODEL_STEPS in the environment sets the number of
// steps.
func TestTheModelAgrees(t *testing.T) {
	t.Parallel()
	steps := 90_000
	if text := os.Getenv("MODEL_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "MODEL_STEPS")
		steps = n
	}
	first := conformance.Seed()
	// most is how many steps a machine runs, which moves its clock from 2100 to some 2330: dates of calendar windows end
	// in 2480.
	const runs, most = 3, 100_000
	seen := [runs]map[string]int{{}, {}, {}}
	t.Run("runs", func(t *testing.T) {
		for i := range uint64(runs) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for left, seed := steps/runs, first+i; left > 0; left, seed = left-most, seed+runs {
					m := newMachine(seed, sound())
					require.Empty(t, m.run(min(left, most)), "-seed %d", seed)
					for what, times := range m.seen {
						seen[i][what] += times
					}
				}
				t.Logf("seed %d, %d steps: %v", first+i, steps/runs, seen[i])
			})
		}
	})
	for _, what := range []string{"held", "charged", "denied", "again", "lapsed", "settled", "returned", "overrun", "refused", "unknown", "renewed true", "renewed false"} {
		times := 0
		for _, s := range seen {
			times += s[what]
		}
		require.Positive(t, times, what)
	}
}
