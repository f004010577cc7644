package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorsAreClassified(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, row := range []struct {
		err                             error
		failed, maybe, demoted, timeout bool
		reason                          string
	}{
		{err: Reply("ERR syntax error"), reason: "ERR syntax error"},
		{err: Reply("OOM command not allowed"), reason: "OOM command not allowed"},
		{err: Reply("BUSY Redis is busy"), failed: true, reason: "BUSY Redis is busy"},
		{err: Reply("NOAUTH Authentication required."), failed: true, reason: "NOAUTH Authentication required."},
		{err: Reply("READONLY You can't write"), failed: true, demoted: true, reason: "READONLY You can't write"},
		{err: fmt.Errorf("x: %w", Reply("LOADING Redis")), failed: true, demoted: true, reason: "x: LOADING Redis"},
		{err: io.EOF, failed: true, maybe: true, reason: "connection failed: EOF"},
		{err: os.ErrDeadlineExceeded, failed: true, maybe: true, timeout: true, reason: "no answer in time"},
		{err: context.DeadlineExceeded, failed: true, timeout: true, reason: "no answer in time"},
		{err: fmt.Errorf("x: %w", dial), failed: true, reason: "connection failed: connection refused"},
		{err: unspoken{io.EOF}, failed: true, reason: "connection failed: EOF"},
		{err: ErrMalformed, failed: true, maybe: true, reason: "malformed reply"},
	} {
		require.Equal(t, row.failed, Failed(row.err), row.reason)
		require.Equal(t, row.maybe, MaybeApplied(row.err), row.reason)
		require.Equal(t, row.demoted, Demoted(row.err), row.reason)
		require.Equal(t, row.timeout, TimedOut(row.err), row.reason)
		require.Equal(t, row.reason, Reason(row.err))
	}
	require.False(t, Failed(nil))
	require.True(t, CutOff(Reply("CLUSTERDOWN The cluster is down")))
	require.True(t, CutOff(Reply("NOREPLICAS Not enough good replicas to write.")))
	require.False(t, CutOff(Reply("READONLY You can't write")))
	require.True(t, NeverConnected(dial))
	require.False(t, NeverConnected(io.EOF))
}
