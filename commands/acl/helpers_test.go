package acl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// known has a few commands of rlproxy.
var known = func() Commands {
	commands := Commands{}
	for name, category := range map[string]string{
		"ping": "@connection", "client": "@slow", "client|id": "@connection", "client|list": "@admin",
		"rl.slide": "@ratelimit", "rl.reset": "@ratelimit", "rl.inspect": "@read",
	} {
		commands[name] = func(c string) bool { return c == category }
	}
	return commands
}()

// list parses lines of a configuration, each of which defines a user.
func list(t *testing.T, lines ...string) *Users {
	t.Helper()
	var words [][]string
	for _, l := range lines {
		words = append(words, strings.Fields(l))
	}
	l, err := New(words, "", known)
	require.NoError(t, err)
	return l
}

// setUser defines a user on a redis-server, from a line of a configuration.
func setUser(t *testing.T, server *redistest.Server, line string) error {
	args := []any{"ACL", "SETUSER"}
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	return server.Client.Do(t.Context(), args...).Err()
}
