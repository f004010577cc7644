package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// decisionLog is the decision log of a proxy, at a path of the test's own.
type decisionLog struct{ path string }

// newDecisionLog returns a decision log and the arguments that turn it on.
func newDecisionLog(t *testing.T, args ...string) (*decisionLog, []string) {
	l := &decisionLog{filepath.Join(t.TempDir(), "decisions")}
	return l, append(args, "--decision-log", l.path)
}

// lines returns the lines, each of which must be one JSON object.
func (l *decisionLog) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(l.path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), "%q", line)
		all = append(all, fields)
	}
	return all
}

// eachLog runs a test with the embedded engine and with a node. stop ends the proxy, so that
// the log has all lines.
func eachLog(t *testing.T, test func(t *testing.T, node string, l *decisionLog, p *proxy)) {
	t.Run("embedded", func(t *testing.T) {
		l, args := newDecisionLog(t)
		test(t, "embedded", l, startProxy(t, args...))
	})
	t.Run("redis", func(t *testing.T) {
		n := startNode(t)
		l, args := newDecisionLog(t, backends(n)...)
		test(t, n.Addr, l, startProxy(t, args...))
	})
}

// Each denial has exactly the expected line.
func TestDecisionLogRecordsDenials(t *testing.T) {
	t.Parallel()
	eachLog(t, func(t *testing.T, node string, l *decisionLog, p *proxy) {
		c := dial(t, p.addr)
		c.do(t, words("CLIENT SETNAME checkout")...)
		client := c.LocalAddr().String()
		retries := map[string]int64{}
		for _, ask := range []struct {
			times int
			line  string
		}{
			{5, "RL.SLIDE tenant:42 2 1h"},         // the third to fifth are denied
			{2, "RL.SLIDE tenant:42 3 2h COST 3"},  // another window of the same key
			{2, "RL.COUNTER tenant:42 1 1h"},       // another command
			{3, "RL.FIXED pairs 9 1h 2 2h 2 366d"}, // the last pair denies longest
			{1, "RL.SLIDE \xff\x00 1 1h COST 0"},   // not denied
			{2, "RL.SLIDE \xff\x00 1 1h"},
			{2, "CL.THROTTLE drops 4 1 60 5"},
			{1, "RL.RESET tenant:42"},
			{1, "RL.SLIDE tenant:42 1 60 COST 2"}, // an error of the request
		} {
			for range ask.times {
				reply := c.do(t, words(ask.line)...)
				if d, err := toDecision(reply); err == nil && d.allowed == 0 && retries[ask.line] == 0 && ask.line[:2] == "RL" {
					retries[ask.line] = d.retryAfter
				}
			}
		}
		p.stop(t)
		want := []map[string]any{
			{"command": "rl.slide", "key": "tenant:42", "limit": 2.0, "window": 3_600_000.0, "used": 2.0, "cost": 1.0, "retry_after": float64(retries["RL.SLIDE tenant:42 2 1h"])},
			{"command": "rl.slide", "key": "tenant:42", "limit": 3.0, "window": 7_200_000.0, "used": 3.0, "cost": 3.0, "retry_after": float64(retries["RL.SLIDE tenant:42 3 2h COST 3"])},
			{"command": "rl.counter", "key": "tenant:42", "limit": 1.0, "window": 3_600_000.0, "used": 1.0, "cost": 1.0, "retry_after": float64(retries["RL.COUNTER tenant:42 1 1h"])},
			{"command": "rl.fixed", "key": "pairs", "limit": 2.0, "window": 366 * 86_400_000.0, "used": 2.0, "cost": 1.0, "retry_after": float64(retries["RL.FIXED pairs 9 1h 2 2h 2 366d"])},
			{"command": "rl.slide", "key": "\ufffd\x00", "key_base64": "/wA=", "limit": 1.0, "window": 3_600_000.0, "used": 1.0, "cost": 1.0, "retry_after": float64(retries["RL.SLIDE \xff\x00 1 1h"])},
			{"command": "cl.throttle", "key": "drops", "limit": 5.0, "window": 300_000.0, "used": 5.0, "cost": 5.0},
		}
		got := l.lines(t)
		require.Len(t, got, len(want), "%v", got)
		for i := range want {
			require.Regexp(t, `^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, got[i]["time"])
			delete(got[i], "time")
			if want[i]["command"] == "cl.throttle" {
				require.InDelta(t, 300_000, got[i]["retry_after"], 10_000)
				delete(got[i], "retry_after")
			}
			for name, value := range map[string]any{"event": "denial", "result": "denied", "node": node, "client": client, "client_name": "checkout"} {
				want[i][name] = value
			}
			require.Equal(t, want[i], got[i])
		}
		st, err := os.Stat(l.path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode())
	})
}

// Sampled decisions are in the log, too. With hashed keys, no key is.
func TestDecisionLogSamplesAndHashes(t *testing.T) {
	t.Parallel()
	l, args := newDecisionLog(t, "--decision-log-sample", "4", "--decision-log-keys", "hash")
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	var asked [][]any
	for range 102 {
		asked = append(asked, words("RL.SLIDE k 50 60"))
	}
	c.pipeline(t, asked...)
	p.stop(t)
	counts := map[string]int{}
	for _, line := range l.lines(t) {
		counts[fmt.Sprint(line["event"], " ", line["result"])]++
		require.NotContains(t, line, "key")
		require.Equal(t, "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a", line["key_sha256"]) // printf %s k | sha256sum
		if line["event"] == "sample" {
			require.EqualValues(t, 4, line["one_of"])
		}
	}
	// 50 admissions, the first denial, and 51 others: one of four of 101.
	require.Equal(t, map[string]int{"denial denied": 1, "sample allowed": 12, "sample denied": 13}, counts)
}

// While a node is down, each answer by a FAIL policy has a line, or is counted in one.
func TestDecisionLogRecordsAnswersByPolicy(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	l, args := newDecisionLog(t, "--backend", n.URL(), "--fail-policy", "open")
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	n.Kill()
	const each = 700
	var asked [][]any
	for range each {
		for _, policy := range []string{"OPEN", "CLOSED", "LOCAL", "ERROR"} {
			asked = append(asked, words("RL.SLIDE k 5 60 FAIL "+policy))
		}
	}
	c.pipeline(t, asked...)
	c.do(t, words("RL.SLIDE k 5 60")...)
	p.stop(t)
	sum, seen := 0, map[string]int{}
	for _, line := range l.lines(t) {
		if line["event"] == "left_out" {
			require.Equal(t, "fail", line["of"])
			require.Equal(t, "more than 100 lines in a second", line["why"])
			sum += int(line["count"].(float64))
			continue
		}
		sum++
		require.Equal(t, "fail", line["event"])
		require.NotContains(t, line, "used")
		require.Equal(t, n.Addr, line["node"])
		seen[fmt.Sprint(line["fail"], " ", line["result"])]++
	}
	require.Equal(t, 4*each+1, sum)
	for _, want := range []string{"open allowed", "closed denied", "local allowed", "local denied", "error error"} {
		require.Positive(t, seen[want], "%s: %v", want, seen)
	}
}

// When the memory of the embedded engine is full, a FAIL policy answers, which has a line, too.
func TestDecisionLogRecordsFullMemory(t *testing.T) {
	t.Parallel()
	l, args := newDecisionLog(t, "--maxmemory", "1mb")
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	refused := int64(0)
	for i := 0; refused == 0; i++ {
		var asked [][]any
		for j := range 100 {
			asked = append(asked, words(fmt.Sprintf("RL.SLIDE key:%d:%d 5 1h", i, j)))
		}
		for _, reply := range c.pipeline(t, asked...) {
			d, err := toDecision(reply)
			require.NoError(t, err)
			if d.remaining == -1 {
				refused++
			}
		}
	}
	require.Equal(t, refused, c.info(t, "refused_for_memory"))
	p.stop(t)
	lines := l.lines(t)
	require.Len(t, lines, int(refused))
	require.Equal(t, "closed", lines[0]["fail"])
	require.Equal(t, "embedded", lines[0]["node"])
	require.Contains(t, p.Output.String(), "maxmemory reached: FAIL policies are answering for keys that cannot be stored")
}

// The file is renamed, and SIGHUP opens it again, while clients send requests. No line is lost.
func TestDecisionLogRotatesUnderLoad(t *testing.T) {
	t.Parallel()
	l, args := newDecisionLog(t, "--decision-log-sample", "1")
	p := startProxy(t, args...)
	var answered atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		c := dial(t, p.addr)
		wg.Go(func() {
			for !stop.Load() {
				replies, err := c.Exchange(words(fmt.Sprintf("RL.SLIDE k%d 1000000 60", i)), words("RL.SLIDE all 10 60"))
				if err != nil {
					t.Error(err)
					return
				}
				answered.Add(int64(len(replies)))
			}
		})
	}
	files := []*decisionLog{l}
	more := func() {
		before := answered.Load()
		eventually(t, "lines of more answers", func() bool {
			written, err := os.Stat(l.path)
			return err == nil && written.Size() > 0 && answered.Load() > before+100
		})
	}
	for i := range 5 {
		more()
		old := &decisionLog{fmt.Sprint(l.path, ".", i)}
		require.NoError(t, os.Rename(l.path, old.path))
		files = append(files, old)
		p.hangup(t, reloaded)
		require.FileExists(t, l.path)
	}
	more()
	stop.Store(true)
	wg.Wait()
	p.stop(t)
	sum := int64(0)
	for _, f := range files {
		lines := f.lines(t)
		require.NotEmpty(t, lines)
		for _, line := range lines {
			if line["event"] == "left_out" { // the machine was too busy to write
				sum += int64(line["count"].(float64))
			} else {
				sum++
			}
		}
	}
	require.Equal(t, answered.Load(), sum)
}

// A reload applies another file and other settings at once. If the file cannot be opened, nothing
// changes.
func TestDecisionLogFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	conf := filepath.Join(folder, "a.conf")
	set := func(content string) { require.NoError(t, os.WriteFile(conf, []byte(content), 0o600)) }
	first, second := &decisionLog{filepath.Join(folder, "first")}, &decisionLog{filepath.Join(folder, "second")}
	set("")
	p := startProxy(t, "--include", conf)
	c := dial(t, p.addr)
	deny := func(key string) { c.pipeline(t, words("RL.SLIDE "+key+" 1 1h"), words("RL.SLIDE "+key+" 1 1h")) }
	deny("a") // no log yet
	set("decision-log " + first.path + "\n")
	p.hangup(t, reloaded)
	deny("a") // has no line in this window yet
	deny("b")
	set("decision-log " + folder + "/none/log\ndecision-log-keys hash\n")
	p.hangup(t, notReloaded)
	require.Contains(t, p.Output.String(), "can't write the decision-log: open "+folder+"/none/log: no such file or directory")
	deny("c")
	set("decision-log " + second.path + "\ndecision-log-keys hash\n")
	p.hangup(t, reloaded)
	deny("d")
	set("")
	p.hangup(t, reloaded)
	deny("e")
	p.stop(t)
	var keys []any
	for _, line := range first.lines(t) {
		keys = append(keys, line["key"])
	}
	require.Equal(t, []any{"a", "b", "c"}, keys)
	lines := second.lines(t)
	require.Len(t, lines, 1)
	require.NotContains(t, lines[0], "key")
	require.Len(t, lines[0]["key_sha256"], 64)
}

// On a full disk, lines are lost. INFO and the log report it, requests are still answered, and the
// process ends cleanly.
func TestDecisionLogSurvivesAFullDisk(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--decision-log", "/dev/full")
	c := dial(t, p.addr)
	for i := range 10 {
		c.decide(t, fmt.Sprintf("RL.SLIDE k%d 1 60", i))
		require.Zero(t, c.decide(t, fmt.Sprintf("RL.SLIDE k%d 1 60", i)).allowed)
	}
	eventually(t, "a failed write", func() bool { return c.info(t, "decision_log_failed_writes") > 0 })
	eventually(t, "the log", func() bool {
		return strings.Contains(p.Output.String(), `the decision log is dropping lines or falling behind" why="write /dev/full: no space left on device"`)
	})
	p.stop(t)
	require.Contains(t, p.Output.String(), "lines_dropped=10")
}

// A hanging disk, here a pipe that nobody reads, delays no reply. The shutdown waits for it at most
// for shutdown-timeout.
func TestDecisionLogOnAHangingDiskDelaysNoReply(t *testing.T) {
	t.Parallel()
	l, args := newDecisionLog(t, "--decision-log-sample", "1", "--shutdown-timeout", "1")
	require.NoError(t, syscall.Mkfifo(l.path, 0o600))
	code, out := outcome(t, args...)
	require.Equal(t, 1, code)
	require.Contains(t, out, "can't write the decision-log: open "+l.path+": no such device or address")
	reader, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	pipeline := make([][]any, 1000)
	for i := range pipeline {
		pipeline[i] = words("RL.SLIDE k 1000000 60")
	}
	eventually(t, "lines to be dropped", func() bool {
		c.pipeline(t, pipeline...)
		return c.info(t, "decision_log_dropped") > 0
	})
	require.NoError(t, c.Close())
	p.Signal(t, syscall.SIGTERM)
	require.Equal(t, 1, p.Exit(t))
	require.Contains(t, p.Output.String(), "the engine or the decision log did not close within shutdown-timeout")
}
