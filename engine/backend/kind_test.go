package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryErrorHasAKind(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		kind ErrorKind
	}{
		{os.ErrDeadlineExceeded, KindTimeout},
		{context.DeadlineExceeded, KindTimeout},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, KindConnection},
		{io.EOF, KindConnection},
		{ErrMalformed, KindMalformed},
		{Reply("LOADING Redis is loading"), KindLoading},
		{Reply("READONLY You can't write"), KindReplica},
		{Reply("MASTERDOWN Link with MASTER is down"), KindReplica},
		{Reply("BUSY Redis is busy"), KindBusy},
		{Reply("NOAUTH Authentication required."), KindPermission},
		{Reply("WRONGPASS invalid username-password pair"), KindPermission},
		{Reply("NOPERM User has no permissions"), KindPermission},
		{Reply("ERR The user executing the script can't run this command or subcommand script: f, on x.lua:1."), KindPermission},
		{Reply("ERR ACL failure in script: User rlproxy has no permissions to run the 'time' command script: f, on x.lua:1."), KindPermission},
		{Reply("OOM command not allowed"), KindMemory},
		{Reply("ERR a timeout of some kind"), KindOther},
		{Reply("NOREPLICAS Not enough good replicas"), KindOther},
	} {
		require.Equal(t, row.kind, KindOf(row.err), "%v", row.err)
	}
	names := make(map[string]bool)
	for k := range Kinds {
		names[ErrorKind(k).String()] = true
	}
	require.Len(t, names, Kinds, "two kinds have one name")
}
