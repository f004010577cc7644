package memory

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

// Where state is kept here, rules answer for keys that find no room.
func TestPolicyRulesWhenMemoryIsFull(t *testing.T) {
	e := New(Config{MaxMemory: 1, Rules: []engine.PolicyRule{{Glob: "open:*", Policy: engine.PolicyOpen}, {Glob: "error:*", Policy: engine.PolicyError}}})
	require.True(t, conformance.Ask(e, conformance.Slide("open:1", 1, 1000, 1)).Allowed)
	require.ErrorContains(t, conformance.Ask(e, conformance.Slide("error:1", 1, 1000, 1)).Err, "UNAVAILABLE embedded: memory is full")
	closed := conformance.Ask(e, conformance.Slide("other", 1, 1000, 1))
	require.False(t, closed.Allowed)
	require.EqualValues(t, -1, closed.Remaining)
}
