package commands

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// cannedEngine admits everything and allocates nothing.
type cannedEngine struct{}

func (cannedEngine) Close() error { return nil }

func (cannedEngine) Do(p *engine.Pipeline) {
	if cap(p.Results) < len(p.Requests) {
		p.Results = make([]engine.Result, len(p.Requests))
	}
	p.Results = p.Results[:len(p.Requests)]
	for i := range p.Results {
		p.Results[i].Decision = engine.Decision{Allowed: true, Limit: 100, Remaining: 99, ResetAfter: 60_001}
	}
}

func slides(n int) []resp.Command {
	pipeline := make([]resp.Command, n)
	for i := range pipeline {
		pipeline[i] = words("RL.SLIDE", "user:"+strconv.Itoa(i), "100", "60")
	}
	return pipeline
}

func TestWarmPipelineDoesNotAllocate(t *testing.T) {
	cfg := testConfig(cannedEngine{})
	cfg.ACL = users(t, "default on nopass ~other:* ~user:* +rl.slide")
	selectors := testConfig(cannedEngine{})
	selectors.ACL = users(t, "default on nopass ~other:* +rl.slide (~* +ping) (~user:* +rl.slide)")
	for _, h := range []*Handler{New(testConfig(cannedEngine{})), New(cfg), New(selectors)} {
		warmPipeline(t, h)
	}
}

func warmPipeline(t *testing.T, h *Handler) {
	s := open(h, 1)
	pipeline := append(slides(64), words("RL.SLIDE", "user:"+strings.Repeat("x", 100), "100", "60"))
	require.NotContains(t, ask(h, s, pipeline...), "NOPERM")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Out = s.Out[:0]
		h.Serve(s, pipeline)
	}))
}

func BenchmarkServe64(b *testing.B) {
	h := New(testConfig(cannedEngine{}))
	s := open(h, 1)
	pipeline := slides(64)
	b.ReportAllocs()
	for b.Loop() {
		s.Out = s.Out[:0]
		h.Serve(s, pipeline)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/decision")
}

// A pipeline larger than a batch is asked for in parts, and answered in order.
func TestLargePipelines(t *testing.T) {
	e := newFakeEngine()
	h := New(testConfig(e))
	s := open(h, 1)
	pipeline := make([]resp.Command, 2*maxBatch+1)
	for i := range pipeline {
		pipeline[i] = words("RL.SLIDE", "a", "1000000", "60")
	}
	answers := strings.Split(strings.TrimSuffix(ask(h, s, pipeline...), "\r\n"), "\r\n")
	require.Equal(t, []int{maxBatch, maxBatch, 1}, e.calls)
	require.Len(t, answers, 6*len(pipeline))
	for i := range pipeline {
		require.Equal(t, ":"+strconv.Itoa(1_000_000-i-1), answers[6*i+3])
	}
	c := s.Data.(*client)
	require.LessOrEqual(t, cap(c.pending), 1024, "memory for a large pipeline is given back")
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.MaxQueueBytes = 1000
	h := New(cfg)
	s := open(h, 1)
	big := words("ECHO", strings.Repeat("x", 900))
	require.Equal(t, "+OK\r\n+QUEUED\r\n", ask(h, s, words("MULTI"), big))
	require.Equal(t, "-"+errQueueFull+"\r\n", ask(h, s, big))
	require.Empty(t, s.Data.(*client).tx.queue)
	require.Equal(t, "-"+errExecAbort+"\r\n", ask(h, s, words("EXEC")))
}

func TestQueuedCommandsAreCopied(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	args := words("ECHO", "hello")
	require.Equal(t, "+OK\r\n+QUEUED\r\n", ask(h, s, words("MULTI"), args))
	copy(args[1], "*****")
	require.Equal(t, "*1\r\n$5\r\nhello\r\n", ask(h, s, words("EXEC")))
}

func TestSubscriptionsAreBounded(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	s.Proto = 3
	many := words("SUBSCRIBE")
	for i := range maxChannels + 1 {
		many = append(many, []byte(strconv.Itoa(i)))
	}
	require.Contains(t, ask(h, s, many), errChannels)
	require.Len(t, s.Data.(*client).subs, maxChannels)
	require.Contains(t, ask(h, s, words("UNSUBSCRIBE")), ":0\r\n")
	require.Contains(t, ask(h, s, words("SUBSCRIBE", strings.Repeat("x", maxChannelBytes+1))), errChannels)
	require.Zero(t, s.Data.(*client).subSize)
}

// The session is trusted with large commands only once it may send commands.
func TestTrust(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("secret")
	h := New(cfg)
	s := open(h, 1)
	require.False(t, s.Trusted)
	ask(h, s, words("AUTH", "wrong"))
	require.False(t, s.Trusted)
	ask(h, s, words("AUTH", "secret"))
	require.True(t, s.Trusted)
	ask(h, s, words("RESET"))
	require.False(t, s.Trusted)
	cfg.ACL = nil
	require.True(t, open(New(cfg), 1).Trusted)
}

func TestClientListTellsOfOthers(t *testing.T) {
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
	require.False(t, one.Closing())
	h.Close(three)
	require.NotContains(t, ask(h, one, words("CLIENT", "LIST")), "id=3")
}

// Sessions list each other while they change: run with -race.
func TestClientListIsSafe(t *testing.T) {
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

// No secret comes back in an answer, whatever is wrong with the command around it.
func TestSecretsAreNotQuoted(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("hunter2")
	for _, args := range []resp.Command{
		words("AUTH", "hunter3"), words("AUTH", "default", "hunter3"), words("AUTH", "a", "hunter3", "b"),
		words("HELLO", "3", "AUTH", "default", "hunter3"), words("HELLO", "AUTH", "default", "hunter3"),
		words("HELLO", "9", "AUTH", "default", "hunter3"), words("AUTHX", "hunter3"),
	} {
		h := New(cfg)
		require.NotContains(t, ask(h, open(h, 1), args), "hunter")
	}
}

func TestEmptyCommandsAreIgnored(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	require.Equal(t, "+PONG\r\n", ask(h, open(h, 1), resp.Command{}, words("PING")))
}

// Whatever a client sends, each command gets one reply and nothing is left behind.
func TestAnswersKeepTheirPlaces(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	for name, r := range h.table.byName {
		if r.barrier && name != "hello" && name != "auth" {
			continue
		}
		args := bytes.Split([]byte(name), []byte("|"))
		for len(args) < max(r.arity, -r.arity) {
			args = append(args, []byte("7"))
		}
		mark := words("ECHO", "mark")
		answer := ask(h, s, mark, args, mark, words("NO SUCH"), mark)
		require.True(t, strings.HasPrefix(answer, "$4\r\nmark\r\n"), name)
		require.True(t, strings.HasSuffix(answer, "\r\n$4\r\nmark\r\n-ERR unknown command 'NO SUCH', with args beginning with: \r\n$4\r\nmark\r\n"), name)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a", "A", true},
		{"a*c", "abbc", true}, {"a*c", "abb", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*a*b", "xaxaxb", true}, {"*ab", "aab", true}, {"**", "x", true}, {"a*", "b", false},
		{"[a-c]x", "Bx", true}, {"[c-a]x", "bx", true}, {"[^a-c]x", "bx", false}, {"[^a-c]x", "dx", true},
		{"[abc", "c", true}, {"[", "", false}, {"[]", "a", false}, {"[^]", "a", true}, {"[a\\]]", "]", true},
		{"\\*", "*", true}, {"\\*", "a", false}, {"a\\", "a\\", true}, {"[\\", "\\", true},
	} {
		require.Equal(t, c.want, Match(c.pattern, c.text), "%q %q", c.pattern, c.text)
	}
	require.False(t, Match(strings.Repeat("*a", 50)+"b", strings.Repeat("a", 10_000)), "and soon")
}
