// Package tests checks rlproxy's behaviour from outside: the real binary, real
// redis-servers, real clients. Nothing of rlproxy itself is imported here.
//
// Reading order: README.md (all levels of tests), internal/proxytest (processes and the
// wire), helpers_test.go and helpers_wire_test.go (its names here),
// helpers_servers_test.go (nodes and proxies), then the tests by subject. The helpers of
// the soaks are helpers_demand_test.go and helpers_load_test.go, which send the requests, and
// helpers_history_test.go, which checks the answers.
package tests

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

func TestMain(m *testing.M) { os.Exit(proxytest.Main(m, "../cmd/rlproxy")) }

const (
	patience    = proxytest.Patience
	raceEnabled = proxytest.Race
)

// spawn starts a program that is killed when the test ends.
func spawn(t *testing.T, name string, args ...string) *proxytest.Process {
	t.Helper()
	return proxytest.Spawn(t, name, args...)
}

// eventually calls done until it returns true, and fails the test after patience. what
// names the thing that is waited for.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	proxytest.Eventually(t, what, done)
}

// soak is the number of requests that make soak sets in SOAK_REQUESTS, or 0. When it is set,
// the random tests run their long form.
var soak = soakRequests()

func soakRequests() int64 {
	text := os.Getenv("SOAK_REQUESTS")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		panic("SOAK_REQUESTS must be a positive integer; it was " + strconv.Quote(text))
	}
	return n
}

// reachesLimits reports whether random tests send so much that every key reaches its limit on a busy machine, too. In a
// shorter run each client may get too few answers for that.
var reachesLimits = soak >= 1_000_000

// soakUpTo returns the number of requests of a random test: the number that make soak sets, at most `most`, or else `few`.
func soakUpTo(most, few int64) int64 {
	if soak > 0 {
		return min(soak, most)
	}
	return few
}

// soakOr returns the length of a random test: long when make soak sends 60,000 requests or more, in proportion when it
// sends fewer, and never less than short.
func soakOr(long, short time.Duration) time.Duration {
	return max(short, long*time.Duration(min(soak, 60_000))/60_000)
}
