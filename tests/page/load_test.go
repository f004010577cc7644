package page

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// caller asks about keys of one kind, a pipeline at a time.
type caller struct {
	name     string               // as CLIENT SETNAME sets it
	every    time.Duration        // between two pipelines
	pipeline int                  // commands in each
	command  func(i uint64) []any // a random one
}

// day is the load of a service: tenants, of which one is noisy, logins that somebody guesses, an API with a
// policy, and limits that are only tried.
var day = []caller{
	{"checkout", 20 * time.Millisecond, 16, func(uint64) []any { return []any{"RL.SLIDE", "tenant:42", 600, 60} }},
	{"checkout", 25 * time.Millisecond, 12, func(i uint64) []any { return []any{"RL.SLIDE", fmt.Sprint("tenant:", 7+i%5), 40_000, 60} }},
	{"search", 40 * time.Millisecond, 10, func(i uint64) []any { return []any{"RL.CHECK", "search", fmt.Sprint("tenant:", i%8)} }},
	{"auth", 90 * time.Millisecond, 2, func(i uint64) []any { return []any{"RL.CHECK", "login", fmt.Sprint("user:", 80_000+i%300)} }},
	{"edge", 50 * time.Millisecond, 6, func(i uint64) []any { return []any{"RL.FIXED", fmt.Sprint("ip:203.0.113.", i%40), 120, 60} }},
	{"billing", 200 * time.Millisecond, 1, func(i uint64) []any { return []any{"RL.COUNTER", "export:monthly:2026-11", 500, 3600} }},
	{"api", 60 * time.Millisecond, 3, func(i uint64) []any { return []any{"RL.CHECK", "trial", fmt.Sprint("tenant:", i%3)} }},
}

// dayPolicies are those of day.
var dayPolicies = []string{
	"SET search SLIDE 2000 60", "OVERRIDE search tenant:3 120 60", "OVERRIDE search tenant:5 BLOCKED", "OVERRIDE search internal:* UNLIMITED",
	"SET login FIXED 3 900 FAIL CLOSED", "SET trial SLIDE 50 60 SHADOW",
}

// setPolicies stores dayPolicies.
func (r *rlproxy) setPolicies(t *testing.T) {
	t.Helper()
	for _, line := range dayPolicies {
		words := []any{"RL.POLICY"}
		for _, w := range strings.Fields(line) {
			words = append(words, w)
		}
		r.ask(t, 1, words...)
	}
}

// load keeps callers busy until the test ends. An rlproxy that stops is left alone.
func (r *rlproxy) load(t *testing.T, all ...caller) {
	t.Helper()
	stop := make(chan struct{})
	ended := make(chan struct{})
	for _, c := range all {
		nc, err := net.Dial("tcp", r.Addr)
		require.NoError(t, err)
		conn := proxytest.NewConn(nc)
		_, err = conn.Exchange([]any{"CLIENT", "SETNAME", c.name})
		require.NoError(t, err)
		go func() { // ends with the test
			c.keepAsking(conn, stop)
			_ = nc.Close()
			ended <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		close(stop)
		for range all {
			<-ended
		}
	})
}

func (c *caller) keepAsking(conn *proxytest.Conn, stop chan struct{}) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		commands := make([][]any, 1+rand.IntN(2*c.pipeline))
		for i := range commands {
			commands[i] = c.command(rand.Uint64())
		}
		if _, err := conn.Exchange(commands...); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}
