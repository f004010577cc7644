package commands

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/slots"
	"github.com/rlproxy/rlproxy/resp"
)

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
	most := 0.0
	if proxytest.Race {
		most = 10 // a pipeline: pools drop their contents on purpose
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		s.Out = s.Out[:0]
		h.Serve(s, pipeline)
	}), most)
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

func TestLargePipelinesAreDecidedInBatchesAndAnsweredInOrder(t *testing.T) {
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
	require.Nil(t, s.Data.(*client).workspace, "a silent session has no memory for pipelines")
}

// Also in a transaction.
func TestWhatWasDecidedIsShownInOrder(t *testing.T) {
	for _, around := range [][2][]resp.Command{{}, {{words("MULTI")}, {words("EXEC")}}} {
		h := New(testConfig(openMemory(t)))
		line := dialogue(t, "RL.SLIDE a 9 60\nDBSIZE\nINFO keyspace\nRL.HOTKEYS\nRL.SLIDE b 9 60\nDBSIZE\nINFO keyspace\nRL.HOTKEYS")
		answer := ask(h, open(h, 1), slices.Concat(around[0], line, around[1])...)
		require.Regexp(t, `(?s)^.*:1\r\n\$\d+\r\n# Keyspace\r\ndb0:keys=1,.*\*3\r\n\*5\r\n.*:2\r\n\$\d+\r\n# Keyspace\r\ndb0:keys=2,.*\*4\r\n\*5\r\n`, answer) // two keys were busy before
	}
}

// COMMAND INFO and ACL rules name subcommands as in client|id. That is no command.
func TestNamesOfSubcommandsAreNoCommands(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	require.Equal(t, "-ERR unknown command 'client|id', with args beginning with: 'x' \r\n-ERR unknown command 'CONFIG|GET', with args beginning with: 'x' 'y' \r\n",
		ask(h, open(h, 1), words("client|id", "x"), words("CONFIG|GET", "x", "y")))
}

func TestEmptyCommandsAreIgnored(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	require.Equal(t, "+PONG\r\n", ask(h, open(h, 1), resp.Command{}, words("PING")))
}

func TestEveryCommandGetsOneReplyInItsPlace(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	for name, r := range h.table.byName {
		if r.barrier && !slices.Contains([]string{"hello", "auth", "info", "dbsize", "rl.hotkeys"}, name) {
			continue // it changes what follows
		}
		args := bytes.Split([]byte(name), []byte("|"))
		for len(args) < max(r.Arity, -r.Arity) {
			args = append(args, []byte("7"))
		}
		mark := words("ECHO", "mark")
		answer := ask(h, s, mark, args, mark, words("NO SUCH"), mark)
		require.True(t, strings.HasPrefix(answer, "$4\r\nmark\r\n"), name)
		require.True(t, strings.HasSuffix(answer, "\r\n$4\r\nmark\r\n-ERR unknown command 'NO SUCH', with args beginning with: \r\n$4\r\nmark\r\n"), name)
	}
}

// FuzzServe sends arbitrary commands and checks that the replies are complete, so that no
// input can end a reply early or begin another one. The input has one command per line, with
// NULs between words.
func FuzzServe(f *testing.F) {
	for _, text := range dialogues {
		var lines [][]byte
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, bytes.Join(proxytest.Words(f, line), []byte{0}))
			}
		}
		f.Add(bytes.Join(lines, []byte{'\n'}))
	}
	f.Add([]byte("CL.THROTTLE\x00a\x00\r\r\x001\x001\nRL.INSPECT\x00a\nRL.SLIDE\x00away\x005\x0060"))
	f.Add([]byte("HELLO\x003\nRL.SLIDE\x00a\x005\x0060\nNO\nSLOWLOG\x00GET\nLATENCY\x00HISTOGRAM\nINFO\x00ALL\nCONFIG\x00RESETSTAT"))
	f.Add([]byte("RL.SLIDE\x00a\x005\x0060\x00AND\x00b\x005\x0060\nRL.SLIDE\x00a\x005\x0060\x00ONCE\x00x\nRL.ACQUIRE\x00k\x002\x00ID\x00x\x00CONN\nRL.RELEASE\x00k\x00x\nRESET"))
	f.Add([]byte("HELLO\x003\nMULTI\nRL.SLIDE\x00a\x005\x0060\nCOMMAND\x00DOCS\nEXEC"))
	f.Fuzz(func(t *testing.T, input []byte) {
		e := newFakeEngine()
		cfg := testConfig(e)
		cfg.MaxQueue = 3
		cfg.Slots = slots.Open(slots.Config{Engine: e})
		h := New(cfg)
		h.SetSlowLog(0, 3)
		s := open(h, 1)
		defer func() {
			h.Close(s)
			require.NotPanics(t, cfg.Slots.Close)
			for i := range cfg.Slots.Stats() {
				require.Zero(t, cfg.Slots.Stats()[i].Value)
			}
		}()
		for line := range bytes.SplitSeq(input, []byte{'\n'}) {
			s.Out = s.Out[:0]
			h.Serve(s, []resp.Command{bytes.Split(line, []byte{0})})
			for out := s.Out; len(out) > 0; {
				rest, ok := skipReply(out)
				require.True(t, ok, "%q answers %q", line, s.Out)
				out = rest
			}
			if s.Closing() {
				return
			}
		}
	})
}

func TestAnInvalidKeyKeepsResetFromResettingAnyKey(t *testing.T) {
	e := newFakeEngine()
	h := New(testConfig(e))
	s := open(h, 1)
	ask(h, s, words("RL.SLIDE", "a", "5", "60"))
	require.Equal(t, "-"+reply.ErrKey+"; it had 0\r\n", ask(h, s, words("RL.RESET", "a", "")))
	require.Equal(t, []int{1}, e.calls)
}

// However many keys a reset has, it says that keys are no patterns only if none had state.
func TestALongResetSaysThatKeysAreNoPatterns(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	reset := words("RL.RESET", "t*")
	for i := range 1300 {
		reset = append(reset, []byte(strconv.Itoa(i)))
	}
	require.Equal(t, "-"+reply.ErrResetGlob+"; it was 't*'\r\n", ask(h, s, reset))
	ask(h, s, words("RL.SLIDE", "1299", "5", "60"))
	require.Equal(t, ":1\r\n", ask(h, s, reset))
}
