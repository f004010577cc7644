package commands

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
)

func TestClientListAndKillReachOtherSessions(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	kills := new(fakeClients)
	cfg.Clients = kills
	h := New(cfg)
	one, two, three := open(h, 1), open(h, 2), open(h, 3)
	ask(h, two, words("CLIENT", "SETNAME", "second"), words("MULTI"), words("PING"))
	ask(h, three, words("SUBSCRIBE", "a"))
	list := ask(h, one, words("CLIENT", "LIST"))
	require.Contains(t, list, "id=1 addr=127.0.0.1:50001 laddr=127.0.0.1:6380 fd=-1 name= age=7 idle=0 flags=N")
	require.Contains(t, list, "id=2 addr=127.0.0.1:50002 laddr=127.0.0.1:6380 fd=-1 name=second age=7 idle=0 flags=x")
	require.Contains(t, list, "id=3 addr=127.0.0.1:50003 laddr=127.0.0.1:6380 fd=-1 name= age=7 idle=0 flags=P")
	require.Contains(t, ask(h, one, words("CLIENT", "LIST", "TYPE", "PUBSUB")), "id=3")
	require.Equal(t, ":1\r\n", ask(h, one, words("CLIENT", "KILL", "TYPE", "PUBSUB")))
	require.Equal(t, "+OK\r\n", ask(h, one, words("CLIENT", "KILL", "127.0.0.1:50002")))
	require.Equal(t, []int64{3, 2}, kills.killed)
	require.NotContains(t, ask(h, one, words("CLIENT", "LIST")), "id=2 ", "a killed client is gone at once")
	require.False(t, one.Closing())
	h.Close(three) // its own end comes later
	require.NotContains(t, ask(h, one, words("CLIENT", "LIST")), "id=3")
}

// Run with -race.
func TestClientListIsSafeWhileSessionsChange(t *testing.T) {
	h := New(testConfig(cannedEngine{}))
	done := make(chan struct{})
	for n := range int64(4) {
		s := open(h, n+1)
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 50 {
				h.Serve(s, []resp.Command{
					words("CLIENT", "SETNAME", strconv.Itoa(i)), words("CLIENT", "LIST"), words("INFO", "clients"),
				})
				s.Out = s.Out[:0]
			}
		}()
	}
	for range 4 {
		<-done
	}
}

// Fields that do not depend on the server have Redis's values.
func TestClientInfoHasTheFieldsOfRedis(t *testing.T) {
	server := redistest.Start(t)
	pipeline := dialogue(t, "HELLO 3\nCLIENT SETNAME me\nSUBSCRIBE a\nCLIENT TRACKING ON OPTIN\nCLIENT NO-EVICT ON\nCLIENT INFO")
	theirs := infoFields(strings.ReplaceAll(exchange(t, server.Addr, pipeline), "txt:", ""))
	h := New(testConfig(newFakeEngine()))
	ours := infoFields(strings.ReplaceAll(ask(h, open(h, 1), pipeline...), "txt:", ""))
	for name, value := range theirs { // redis-py 5 fails unless each of Redis's numbers is there
		require.Contains(t, ours, name)
		if _, err := strconv.Atoi(value); err == nil {
			require.Regexp(t, `^-?\d+$`, ours[name], name)
		}
	}
	for _, name := range []string{"name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "redir", "resp"} {
		require.Equal(t, theirs[name], ours[name], name)
	}
}
