package main

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that accepts a connection and says nothing does not hold up a command.
func TestAFetchEndsInTime(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close() //nolint:errcheck // nothing was written
	_, err = fetch("http://user:hidden@"+silent.Addr().String()+"/api/denials", 50*time.Millisecond)
	require.ErrorContains(t, err, "no answer within 50ms: Get \"http://user:***@"+silent.Addr().String()+"/api/denials\": ")
}
