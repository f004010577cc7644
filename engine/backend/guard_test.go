package backend

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuardLogsPanics(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	require.True(t, Guard(logger, "work", func() {}))
	require.Empty(t, log.String())
	require.False(t, Guard(logger, "work", func() { panic("at the disco") }))
	require.Contains(t, log.String(), `msg="internal error" doing=work panic="at the disco"`)
	require.Contains(t, log.String(), "TestGuardLogsPanics")
}
