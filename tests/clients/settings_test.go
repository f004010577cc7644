package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page shows the settings that are tried.
func TestThePageShowsTheSettings(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("docs/clients.md")
	require.NoError(t, err)
	require.Contains(t, string(page), settingsTable(), "make test-clients writes the page")
	for _, s := range settings {
		require.Contains(t, s.shown(), "ms", s.name)
	}
}
