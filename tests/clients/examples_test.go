package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A middleware is short enough to be read at once, and copied.
func TestMiddlewaresAreShort(t *testing.T) {
	seen := 0
	for _, e := range examples {
		if e.policies == byPolicy && !strings.HasSuffix(e.language, ", tokens") { // those are gateways
			text, err := os.ReadFile("../../" + e.source)
			require.NoError(t, err)
			require.Less(t, bytes.Count(text, []byte("\n")), 80, e.source)
			seen++
		}
	}
	require.Equal(t, 4, seen)
}
