package commands

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACLListHidesPasswords(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t, "shop on >hunter2 >other ~shop:* %R~all:* +@ratelimit -rl.reset", "none", "some nopass ~* -@all +ping")
	h := New(cfg)
	list := ask(h, open(h, 1), words("ACL", "LIST"))
	for _, line := range []string{
		"user default on nopass ~* &* +@all",
		"user shop on #hidden #hidden ~shop:* %R~all:* &* -@all +@ratelimit -rl.reset",
		"user none off &* -@all",
		"user some off nopass ~* &* -@all +ping",
	} {
		require.Contains(t, list, "\r\n"+line+"\r\n")
	}
}
