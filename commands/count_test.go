package commands

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
)

var (
	integers  = regexp.MustCompile(`(?m)^:\d+`)
	durations = regexp.MustCompile(`(usec|usec_per_call|p50|p99|p99\.9)=[\d.]+`)
	addresses = regexp.MustCompile(`\$\d+\r\n127\.0\.0\.1:\d+`)
)

// statistics returns the lines of INFO's commandstats, errorstats and latencystats, sorted, with
// the calls of what only one of two servers was asked left out.
func statistics(info string) (lines []string) {
	for line := range strings.Lines(info) {
		line = strings.TrimSpace(durations.ReplaceAllString(line, "$1=N"))
		if (strings.Contains(line, "stat") || strings.Contains(line, "percentiles")) && !strings.Contains(line, "config|") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

func TestCommandsAndErrorsAreCountedAsByRedis(t *testing.T) {
	pipeline := dialogue(t, `
		PING
		PING
		PING a b
		ECHO
		ECHO a
		WHAT
		CLIENT WHAT
		CLIENT
		CLIENT ID
		AUTH default b
		AUTH a
		HELLO 9
		SELECT 99
		EXEC
		MULTI
		PING
		PING a b
		ECHO a
		MULTI
		EXEC
		MULTI
		ECHO
		PING
		EXEC
		MULTI
		EXEC a
		CLIENT REPLY OFF
		PING
		PING a b
		WHAT
		CLIENT REPLY ON
		LATENCY HISTOGRAM what
		SLOWLOG GET -2
		INFO nothing
		INFO commandstats errorstats latencystats`)
	server := redistest.Start(t)
	require.NoError(t, server.Client.ConfigResetStat(t.Context()).Err())
	theirs := statistics(exchange(t, server.Addr, pipeline))
	h := New(testConfig(newFakeEngine()))
	require.Equal(t, theirs, statistics(ask(h, open(h, 1), pipeline...)))
	require.Greater(t, len(theirs), 30)
}

func TestSlowLogAndHistogramsHaveTheShapesOfRedis(t *testing.T) {
	text := `
		CLIENT SETNAME worker
		ECHO ` + strings.Repeat("x", 200) + `
		COMMAND INFO` + strings.Repeat(" nothing", 40) + `
		MULTI
		PING
		EXEC
		PING
		SLOWLOG LEN
		SLOWLOG GET 7
		SLOWLOG GET 2
		LATENCY HISTOGRAM ECHO what
		LATENCY HISTOGRAM client what
		LATENCY HISTOGRAM what
		SLOWLOG RESET
		SLOWLOG GET`
	server := redistest.Start(t)
	require.NoError(t, server.Client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	require.NoError(t, server.Client.SlowLogReset(t.Context()).Err())
	for _, first := range []string{"HELLO 2", "HELLO 3"} {
		require.NoError(t, server.Client.ConfigResetStat(t.Context()).Err())
		pipeline := dialogue(t, first+"\n"+text)
		h := New(testConfig(newFakeEngine()))
		h.SetSlowLog(0, 128)
		mask := func(s string) string {
			s = addresses.ReplaceAllString(integers.ReplaceAllString(ids.ReplaceAllString(s, "${1}N"), ":N"), "ADDR")
			return strings.ReplaceAll(s, "\r\n", "\n")
		}
		require.Equal(t, mask(exchange(t, server.Addr, pipeline)), mask(ask(h, open(h, 1), pipeline...)))
	}
}

// slowEngine takes its time.
type slowEngine struct {
	cannedEngine
	takes time.Duration
}

func (e slowEngine) Do(p *engine.Pipeline) {
	for began := time.Now(); time.Since(began) < e.takes; {
	}
	e.cannedEngine.Do(p)
}

func TestCommandsOfAPipelineTakeAsLongAsIt(t *testing.T) {
	const takes = 2 * time.Millisecond
	h := New(testConfig(slowEngine{takes: takes}))
	h.SetSlowLog(takes, 10)
	s := open(h, 1)
	ask(h, s, words("CLIENT", "SETNAME", "w"))
	ask(h, s, dialogue(t, `
		RL.SLIDE a x 60
		RL.SLIDE a 5 60
		PING
		RL.FIXED b 5 60
		RL.SLIDE c 5 60`)...)
	entries := h.stats.Slow.Newest(-1)
	require.Len(t, entries, 1, "one for a pipeline")
	e := entries[0]
	require.Equal(t, []string{"RL.SLIDE", "a", "5", "60", "... (2 more commands in the pipeline)"}, e.Args)
	require.Equal(t, "w", e.Name)
	require.Equal(t, "127.0.0.1:50001", e.Addr)
	require.Equal(t, at, e.At)
	require.GreaterOrEqual(t, e.Took, takes)
	require.Contains(t, statistics(ask(h, s, words("INFO", "commandstats"))), "cmdstat_rl.slide:calls=3,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=1")
	percentiles := make(map[string]string)
	for _, l := range h.stats.Latencystats() {
		percentiles[l[0]] = l[1]
	}
	require.NotEmpty(t, percentiles["latency_percentiles_usec_rl.slide"])
	require.Equal(t, percentiles["latency_percentiles_usec_rl.slide"], percentiles["latency_percentiles_usec_rl.fixed"])
}

func TestErrorsInATransactionAreNotThoseOfEXEC(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	lines := statistics(ask(h, open(h, 1), dialogue(t, "MULTI\nRL.SLIDE a x 60\nEXEC\nINFO commandstats")...))
	require.Contains(t, lines, "cmdstat_exec:calls=1,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=0")
	require.Contains(t, lines, "cmdstat_rl.slide:calls=1,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=1")
}

func TestSlowLogHasNoPasswords(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("secret")
	h := New(cfg)
	h.SetSlowLog(0, 128)
	s := open(h, 1)
	for _, line := range []string{"AUTH secret", "HELLO 3 AUTH default secret", "AUTH secret default", "HELLO 3 AUTH secret", "PING"} {
		ask(h, s, dialogue(t, line)...)
	}
	entries := h.stats.Slow.Newest(-1)
	require.Len(t, entries, 1)
	require.Equal(t, []string{"PING"}, entries[0].Args)
}

func TestForwardedCommandsAreCountedByTheNamesOfTheNode(t *testing.T) {
	h, node := forwarding(t)
	h.SetSlowLog(0, 128)
	s := open(h, 1)
	require.NoError(t, node.Client.Do(t.Context(), "SET", "text", "x").Err())
	ask(h, s, dialogue(t, `
		made-up-by-a-client secret
		gEt a
		GET b
		GET
		INCR text
		OBJECT encoding text
		OBJECT made-up
		CONFIG SET requirepass secret
		CLIENT REPLY SKIP
		INCR text
		SET rl:{a} 1`)...)
	lines := statistics(ask(h, s, words("INFO", "everything")))
	var forwarded []string
	for _, l := range lines {
		if !strings.HasPrefix(l, "cmdstat_client") && !strings.HasPrefix(l, "latency") && strings.Contains(l, "stat_") {
			forwarded = append(forwarded, l)
		}
	}
	require.Equal(t, []string{
		"cmdstat_get:calls=3,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=1",
		"cmdstat_incr:calls=2,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=2",
		"cmdstat_object|encoding:calls=1,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=0",
		"cmdstat_set:calls=1,usec=N,usec_per_call=N,rejected_calls=0,failed_calls=1",
		"errorstat_ERR:count=7",
	}, forwarded)
	logged := ""
	for _, e := range h.stats.Slow.Newest(-1) {
		logged += strings.Join(e.Args, " ") + "\n"
	}
	require.Contains(t, logged, "gEt a ... (6 more commands in the pipeline)\n", "the first command that the node knows")
	require.NotContains(t, logged, "secret")
}

// openMemory opens an embedded engine until the test ends.
func openMemory(t testing.TB) engine.Engine {
	e := memory.Open(memory.Config{})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func TestInfoHasTheSectionsOfRedis(t *testing.T) {
	server := redistest.Start(t)
	h := New(testConfig(openMemory(t)))
	titles := func(info string) []string {
		found := regexp.MustCompile(`(?m)^# (Commandstats|Errorstats|Latencystats|Keyspace|Cluster|Server)`).FindAllString(info, -1)
		slices.Sort(found)
		return found
	}
	for _, line := range []string{
		"INFO", "INFO default", "INFO all", "INFO everything", "INFO COMMANDSTATS", "INFO server latencystats", "INFO default commandstats",
		"INFO errorstats keyspace",
	} {
		pipeline := dialogue(t, line)
		require.Equal(t, titles(exchange(t, server.Addr, pipeline)), titles(ask(h, open(h, 1), pipeline...)), line)
	}
}

func TestKeysAreCountedWhereTheStateIs(t *testing.T) {
	h := New(testConfig(openMemory(t)))
	s := open(h, 1)
	require.Contains(t, ask(h, s, words("INFO", "keyspace")), "# Keyspace\r\n\r\n")
	ask(h, s, dialogue(t, "RL.SLIDE a 1 60\nRL.SLIDE b 1 60")...)
	require.Contains(t, ask(h, s, words("INFO", "keyspace")), "db0:keys=2,expires=2,avg_ttl=0\r\n")
	require.Equal(t, ":2\r\n*0\r\n", ask(h, s, words("DBSIZE"), words("MODULE", "LIST")))

	h.SetACL(users(t, "default on nopass ~a* +@all"))
	require.Equal(t, "-NOPERM this user has no permissions to access all keys, as needed by the 'dbsize' command\r\n", ask(h, s, words("DBSIZE")))
	h.SetACL(users(t, "default on nopass %R~* +dbsize"))
	require.Equal(t, ":2\r\n", ask(h, s, words("DBSIZE")))

	h, node := forwarding(t)
	s = open(h, 1)
	require.NoError(t, node.Client.Do(t.Context(), "SET", "a", "x").Err())
	require.Equal(t, ":1\r\n", ask(h, s, words("DBSIZE")), "with backends it is the nodes'")
	require.Equal(t, "$0\r\n\r\n", ask(h, s, words("INFO", "keyspace")))
}

func BenchmarkPipeline(b *testing.B) {
	for _, c := range []struct {
		name     string
		pipeline []resp.Command
	}{
		{"slide-1", slides(1)},
		{"slide-16", slides(16)},
		{"slide-64", slides(64)},
		{"ping-64", slices.Repeat([]resp.Command{words("PING")}, 64)},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := New(Config{Engine: openMemory(b)})
			s := open(h, 1)
			s.Trusted = true
			b.ReportAllocs()
			for b.Loop() {
				s.Out = s.Out[:0]
				h.Serve(s, c.pipeline)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.pipeline)), "ns/command")
		})
	}
}
