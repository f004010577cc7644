package tests

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/stretchr/testify/require"
)

// One who waits for each answer of a far node gets an advance, and then waits no more.
func TestAFarNodeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	net := faultnet.Start(t, startNode(t).Addr)
	net.Set(faultnet.Faults{Distance: 40 * time.Millisecond})
	c := dial(t, startProxy(t, "--backend", "redis://"+net.Addr, "--backend-timeout", "1000", "--advance", "yes").addr)
	eventually(t, "an advance", func() bool {
		_, err := toDecision(c.do(t, words("RL.SLIDE k 1000000 1m")...))
		require.NoError(t, err)
		return c.info(t, "advance_decisions") > 0
	})
}
