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
	const runs = 3
	var seen [runs]map[string]int
	t.Run("runs", func(t *testing.T) {
		for i := range uint64(runs) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				m := newMachine(first+i, sound())
				seen[i] = m.seen
				wrong := m.run(steps / runs)
				t.Logf("seed %d, %d steps: %v", first+i, steps/runs, m.seen)
				require.Empty(t, wrong, "-seed %d", first+i)
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
