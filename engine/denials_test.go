package engine

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCloseReturnsWhileListening(t *testing.T) {
	s := redistest.Start(t)
	e := openTestRedis(t, nil, s)
	done := make(chan error, 1)
	go func() { done <- e.Close() }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("Close does not return")
	}
}
