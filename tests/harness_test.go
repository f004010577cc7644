// Package tests holds rlproxy to its contract from outside: the real binary, real
// redis-servers, real clients. Nothing of rlproxy itself is imported here.
//
// Reading order: internal/proxytest (processes and the wire), harness_test.go and
// wire_test.go (its names here), servers_test.go (nodes and proxies), then the tests
// by subject.
package tests

import (
	"os"
	"testing"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

func TestMain(m *testing.M) { os.Exit(proxytest.Main(m, "../cmd/rlproxy")) }

const (
	patience    = proxytest.Patience
	raceEnabled = proxytest.Race
)

// spawn starts a program that ends with the test.
func spawn(t *testing.T, name string, args ...string) *proxytest.Process {
	t.Helper()
	return proxytest.Spawn(t, name, args...)
}

// eventually asks again and again until done says so.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	proxytest.Eventually(t, what, done)
}
