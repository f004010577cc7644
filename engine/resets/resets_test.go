package resets

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/stretchr/testify/require"
)

func TestRefusalsOfSubscribeAreEpisodes(t *testing.T) {
	w := logged.New()
	l := Listener{refused: episodes.New(w.Logger(), w.Now, refusesSubscribe, "node", "a:1")}
	w.RequireEpisodes(t, logged.Lines{
		Began:  `"node refused SUBSCRIBE: resets made through other proxies take up to 1 s to reach this one" node=a:1`,
		Ended:  `"node accepts SUBSCRIBE again" node=a:1`,
		Detail: ` why=NOPERM`, Count: "times",
	}, func() { require.False(t, l.heard(backend.Reply("NOPERM"))) }, func() { require.True(t, l.heard(nil)) })
	w.Said()
	require.False(t, l.heard(errors.New("connection refused")))
	require.False(t, l.heard(redis.ErrClosed))
	require.Empty(t, w.Said(), "the health of the node says so")
}
