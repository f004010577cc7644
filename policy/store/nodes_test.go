package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/shard"
)

// openFleet returns the fleet of these backends.
func openFleet(t testing.TB, urls ...string) *backend.Fleet {
	t.Helper()
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return fleet
}

func TestNoClientsKeyIsStoredUnderTheRecordsKey(t *testing.T) {
	_, _, ok := shard.ParseStoredKey(nil, []byte(storedKey))
	require.False(t, ok)
}

func TestRecordIsReplacedOnlyIfItIsUnchangedSinceItWasRead(t *testing.T) {
	ctx := context.Background()
	s := redistest.Start(t)
	n := homeOf(openFleet(t, s.URL()).Topology())
	line, err := n.line(ctx)
	require.NoError(t, err)
	require.Empty(t, line, "there is no record")

	one, whole := record{1, strings.Repeat("a", policy.MaxText)}.encode()
	replace := func(was string, whole []byte) bool {
		done, err := n.replace(ctx, was, whole)
		require.NoError(t, err)
		return done
	}
	require.False(t, replace(one, whole), "there is no record with this first line")
	require.True(t, replace("", whole))
	two, next := record{2, "b\n"}.encode()
	require.False(t, replace("", next), "the record was changed first")
	require.True(t, replace(one, nil), "only the time to live is renewed")
	stored, err := n.load(ctx)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(stored))
	require.True(t, replace(one, next))
	line, err = n.line(ctx)
	require.NoError(t, err)
	require.Equal(t, two, line)

	for _, stored := range []string{"x", strings.Repeat("x", 100), two[:len(two)-1], "\n"} {
		s.Do("SET", storedKey, stored)
		require.False(t, replace("", whole), "%q", stored)
		require.True(t, replace(firstLine([]byte(stored)), next), "%q", stored)
	}
}

func TestStoredPoliciesExpireAYearAfterTheLastRenewal(t *testing.T) {
	ctx := context.Background()
	s := redistest.Start(t)
	n := homeOf(openFleet(t, s.URL()).Topology())
	line, whole := record{1, "a\n"}.encode()
	_, err := n.replace(ctx, "", whole)
	require.NoError(t, err)
	left := func() time.Duration {
		ms, err := time.ParseDuration(s.Do("PTTL", storedKey) + "ms")
		require.NoError(t, err)
		return ms
	}
	require.InDelta(t, 366*24, left().Hours(), 1)
	for _, command := range [][]any{{"PEXPIRE", storedKey, 60_000}, {"PERSIST", storedKey}} {
		s.Do(command...)
		require.NoError(t, n.renew(ctx, "another line\n"))
		require.Less(t, left(), time.Hour)
		require.NoError(t, n.renew(ctx, line))
		require.InDelta(t, 366*24, left().Hours(), 1)
	}
}

func TestFullNodeStoresPolicies(t *testing.T) {
	ctx := context.Background()
	s := redistest.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	_, err := s.Ask("SET", "k", strings.Repeat("x", 2<<20))
	for err == nil {
		_, err = s.Ask("SET", "k2", "x")
	}
	require.ErrorContains(t, err, "OOM")
	n := homeOf(openFleet(t, s.URL()).Topology())
	_, whole := record{1, "a\n"}.encode()
	done, err := n.replace(ctx, "", whole)
	require.NoError(t, err)
	require.True(t, done)
}

func TestKeyOfAnotherTypeIsNotReplaced(t *testing.T) {
	ctx := context.Background()
	s := redistest.Start(t)
	s.Do("LPUSH", storedKey, "x")
	n := homeOf(openFleet(t, s.URL()).Topology())
	_, err := n.line(ctx)
	require.ErrorAs(t, err, new(damage))
	_, err = n.load(ctx)
	require.ErrorAs(t, err, new(damage))
	_, whole := record{1, "a\n"}.encode()
	done, err := n.replace(ctx, "", whole)
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, "list", s.Do("TYPE", storedKey))
}

func TestTheErrorSaysIfARecordMayHaveBeenStored(t *testing.T) {
	ctx := context.Background()
	s := redistest.Start(t)
	n := homeOf(openFleet(t, s.URL()).Topology())
	_, err := n.line(ctx)
	require.NoError(t, err)
	_, whole := record{1, "a\n"}.encode()
	s.Pause()
	_, err = n.replace(ctx, "", whole)
	require.ErrorAs(t, err, new(maybeApplied))
	s.Kill()
	_, err = n.replace(ctx, "", whole)
	require.Error(t, err)
	require.NotErrorAs(t, err, new(maybeApplied), "there was no connection to send it on")
}
