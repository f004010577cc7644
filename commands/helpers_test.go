package commands

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/config"
	"github.com/rlproxy/rlproxy/commands/info"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/policy/store"
	"github.com/rlproxy/rlproxy/resp"
)

var update = flag.Bool("update", false, "rewrite testdata and docs/commands.md with the actual replies")

// fakeEngine is an embedded engine at a time that stands still. Keys that begin with "away" are on a node that does not answer, and
// RL.INSPECT shows a shard of each state.
type fakeEngine struct {
	*memory.Engine
	calls []int // the number of requests of each call of Do
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{Engine: memory.New(memory.Config{Now: func() time.Time { return at }})}
}

func (f *fakeEngine) Close() error { return nil }

func (f *fakeEngine) Do(p *engine.Pipeline) {
	f.calls = append(f.calls, len(p.Requests))
	p.Grow()
	var here engine.Pipeline
	var places []int
	for i := 0; i < len(p.Requests); {
		end := i + 1 + p.Requests[i].MoreKeys
		away := slices.ContainsFunc(p.Requests[i:end], func(r engine.Request) bool {
			return r.Verdict == engine.VerdictNone && strings.HasPrefix(string(r.Key), "away")
		})
		for ; i < end; i++ {
			if away {
				p.Results[i].Err = &engine.Unavailable{Node: "10.0.0.1:6379", Why: "no answer in 50ms"}
				continue
			}
			here.Requests, places = append(here.Requests, p.Requests[i]), append(places, i)
		}
	}
	f.Engine.Do(&here)
	for j, i := range places {
		p.Results[i] = here.Results[j]
		for k := range p.Results[i].States {
			p.Results[i].States[k].Shards = []engine.Shard{{Number: 1, Node: "10.0.0.2:6379", Held: 3, Used: 2, Lease: 900}}
		}
	}
}

// used returns the units of a key that are charged or held.
func (f *fakeEngine) used(key string) (units int64) {
	for _, s := range conformance.Ask(f.Engine, conformance.Inspect(key)).States {
		units += s.Used + s.Held
	}
	return units
}

func (f *fakeEngine) Stats() []engine.Stat { return []engine.Stat{{Name: "engine", Text: "fake"}} }

// Where says that the key busy is split.
func (f *fakeEngine) Where(key []byte) (node string, shards int) {
	if string(key) == "busy" {
		return "a:1", 4
	}
	return "a:1", 1
}

// Nodes returns a node that is up, with the layouts of two proxies, and one that is down.
func (f *fakeEngine) Nodes() []engine.NodeInfo {
	return []engine.NodeInfo{{
		Name: "a:1", Placement: "a:1/0", State: "up",
		Facts: &engine.NodeFacts{Keys: 3, Memory: 2048, MaxMemory: 4096, Policy: "noeviction", Saves: "aof",
			Latency: 250 * time.Microsecond, Offset: -3 * time.Millisecond},
		Layouts: []engine.Layout{
			{Own: true, Names: []string{"a:1/0", "b:2/0"}, Proxies: []string{"web-1:7:0a"}},
			{Names: []string{"a:1/0"}, Proxies: []string{"web-2:7:0b", "web-3:7:0c"}},
		},
	}, {Name: "b:2", Placement: "b:2/0", State: "down", Why: "no answer in time"}}
}

// fakeClients records the IDs of the sessions that CLIENT KILL closed.
type fakeClients struct {
	killed []int64
}

func (f *fakeClients) Kill(id int64) bool {
	f.killed = append(f.killed, id)
	return true
}

// at is the current time in tests.
var at = time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

// testConfig returns the configuration of a handler on e with fakes for everything else.
func testConfig(e engine.Engine) Config {
	catalog := policiesOf(`
		policy api SLIDE 5 60
		policy-override api tenant:* 9 1s 100 1h
		policy-override api tenant:42 2 60
		policy-override api free UNLIMITED
		policy-override api out BLOCKED
		policy web COUNTER 100 60 BUCKETS 6 STRICT SHARDS 4 FAIL OPEN`)
	kept, err := store.Open(nil, "", catalog, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	lister, _ := e.(engine.KeyLister)
	return Config{
		Engine:   e,
		Keys:     lister,
		Observer: observed(e),
		FleetKeys: func() ([]observe.HotKey, int) { // in the order of a map
			return []observe.HotKey{
				{Key: []byte("idle"), Rate: 3, Admitted: 30, Shards: 1},
				{Key: []byte("busy"), Rate: 2700.5, DeniedRate: 2690, Admitted: 300, Denied: 26_700, ByFail: 5, Limit: 100, Remaining: -1, Shards: 4, ShadowDenied: 7},
			}, 3
		},
		Policies:       catalog,
		ChangePolicies: kept.Change,
		Clients:        new(fakeClients),
		Now:            func() time.Time { return at },
		Settings:       &fakeSettings{},
		Info: func() []info.Section {
			return []info.Section{{Name: "Engine", Fields: [][2]string{{"engine", "fake"}}}}
		},
	}
}

// policiesOf returns the policies of a text in force.
func policiesOf(text string) *policy.Catalog {
	s, err := policy.Parse(text)
	if err != nil {
		panic(err)
	}
	b := new(policy.Catalog)
	b.Configure(s)
	return b
}

// fakeSettings are directives of which timeout and maxclients can be set, to numbers.
type fakeSettings struct {
	set []string // what was set, and by whom
}

func (f *fakeSettings) Matching(pattern string) (found [][2]string) {
	for _, s := range [][2]string{{"maxclients", "10000"}, {"port", "6380"}, {"timeout", "0"}} {
		if glob.Match(strings.ToLower(pattern), s[0]) {
			found = append(found, s)
		}
	}
	return found
}

func (f *fakeSettings) When(name string) (string, config.When) {
	switch name = strings.ToLower(name); name {
	case "maxclients", "timeout":
		return name, config.AtOnce
	case "port":
		return name, config.AtRestart
	case "requirepass":
		return name, config.AtReload
	}
	return "", config.AtRestart
}

func (f *fakeSettings) Set(by table.Caller, pairs [][2]string) (name, why string) {
	for _, p := range pairs {
		if _, err := strconv.Atoi(p[1]); err != nil {
			return p[0], "argument couldn't be parsed into an integer"
		}
	}
	f.set = append(f.set, fmt.Sprintf("%s %s %s", by.User.Name, by.Addr, pairs))
	return "", ""
}

// observed returns an Observer that has seen 9,000 decisions about the key busy, of which
// 100 were admitted, and ten about the key idle.
func observed(e engine.Engine) *observe.Observer {
	o := observe.New(observe.Config{Engine: e, Now: func() time.Time { return at }})
	see := func(key string, n int, allowed bool) {
		p := engine.Pipeline{Requests: make([]engine.Request, 1), Results: make([]engine.Result, 1)}
		p.Requests[0].Key, p.Requests[0].Kind = []byte(key), limit.Slide
		p.Results[0].Decision = limit.Decision{Allowed: allowed, Limit: 100, Remaining: 90}
		for range n {
			o.Observe(&p, at, time.Millisecond, observe.Sender{})
		}
	}
	see("busy", 100, true)
	see("busy", 8900, false)
	see("idle", 10, true)
	return o
}

// open begins session n of h.
func open(h *Handler, n int64) *resp.Session {
	s := &resp.Session{
		ID: n, Proto: 2, Created: at.Add(-7 * time.Second),
		Remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000 + int(n)},
		Local:  &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6380},
	}
	h.Open(s)
	return s
}

// words returns a command with the given words.
func words(ws ...string) resp.Command {
	args := make(resp.Command, len(ws))
	for i, w := range ws {
		args[i] = []byte(w)
	}
	return args
}

// ask serves one pipeline and returns the replies.
func ask(h *Handler, s *resp.Session, pipeline ...resp.Command) string {
	s.Out = s.Out[:0]
	h.Serve(s, pipeline)
	return string(s.Out)
}

// requiring returns a list in which the default user has a password.
func requiring(password string) *acl.Users {
	a, err := NewACL(nil, password)
	if err != nil {
		panic(err)
	}
	return a
}

// cannedEngine admits everything and allocates nothing.
type cannedEngine struct{}

func (cannedEngine) Close() error { return nil }

func (cannedEngine) Stats() []engine.Stat     { return nil }
func (cannedEngine) Nodes() []engine.NodeInfo { return nil }

func (cannedEngine) Where([]byte) (node string, shards int) { return "embedded", 1 }

func (cannedEngine) Do(p *engine.Pipeline) {
	if cap(p.Results) < len(p.Requests) {
		p.Results = make([]engine.Result, len(p.Requests))
	}
	p.Results = p.Results[:len(p.Requests)]
	for i := range p.Results {
		p.Results[i].Decision = limit.Decision{Allowed: true, Limit: 100, Remaining: 99, ResetAfter: 60_001}
	}
}

func slides(n int) []resp.Command {
	pipeline := make([]resp.Command, n)
	for i := range pipeline {
		pipeline[i] = words("RL.SLIDE", "user:"+strconv.Itoa(i), "100", "60")
	}
	return pipeline
}

// users parses users from lines of a configuration.
func users(t *testing.T, lines ...string) *acl.Users {
	t.Helper()
	var words [][]string
	for _, l := range lines {
		words = append(words, strings.Fields(l))
	}
	a, err := NewACL(words, "")
	require.NoError(t, err)
	return a
}

func fields(line string) (words []any) {
	for _, w := range strings.Fields(line) {
		words = append(words, w)
	}
	return words
}

// setUser defines a user, by a line of a configuration, on a redis-server.
func setUser(t *testing.T, server *redistest.Server, line string) error {
	return server.Client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, fields(line)...)...).Err()
}

// fakeForward gives every command the same kind of reply. Commands with a stored key of rate
// limits, or without a key, read the state of rate limits.
type fakeForward struct {
	calls []int // the number of commands of each call of Start
}

func (f *fakeForward) On() bool { return true }

func (f *fakeForward) Start(p *forward.Pipeline) {
	f.calls = append(f.calls, len(p.Commands))
	p.Results = make([]forward.Result, len(p.Commands))
	for i, c := range p.Commands {
		p.Results[i].Raw = fmt.Appendf(nil, "+forwarded %s, resp3 %t\r\n", c.Args[0], c.RESP3)
	}
}

func (f *fakeForward) Wait(*forward.Pipeline) {}

func (f *fakeForward) Await(p *forward.Pipeline, i int) *forward.Result { return &p.Results[i] }

func (f *fakeForward) Join(*forward.Pipeline, *forward.Transaction, [][]byte) error { return nil }

func (f *fakeForward) Describe(*forward.Pipeline, [][]byte) (forward.Description, error) {
	return forward.Description{}, forward.ErrUnknownCommand
}

func (f *fakeForward) Commands(*forward.Pipeline) []forward.NodeCommand { return nil }

func (f *fakeForward) ReadsLimits(_ *forward.Pipeline, args [][]byte) bool {
	return len(args) < 2 || strings.HasPrefix(string(args[1]), "rl:{")
}

// forwarding returns a handler in front of a redis-server.
func forwarding(t *testing.T) (*Handler, *redistest.Server) {
	node := redistest.Start(t)
	return forwardingTo(t, 5*time.Second, node.URL()), node
}

// forwardingTo returns a handler in front of nodes. Decisions have that much time, and
// forwarded commands have plenty.
func forwardingTo(t *testing.T, timeout time.Duration, urls ...string) *Handler {
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	e := redis.Open(fleet, redis.Config{})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	f := forward.Open(fleet, forward.Config{Settings: forward.Settings{Timeout: 20 * time.Second}})
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	cfg := testConfig(e)
	cfg.Forward = f
	return New(cfg)
}

// lines returns a pipeline with one command per line.
func lines(text string) (pipeline [][][]byte) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			pipeline = append(pipeline, words(f...))
		}
	}
	return pipeline
}

// infoFields returns the key=value and key:value pairs of a reply.
func infoFields(reply string) map[string]string {
	fields := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)(?:^|[ :])([a-z_-]+)(?:=|:)([^ \r\n]*)`).FindAllStringSubmatch(reply, -1) {
		fields[m[1]] = m[2]
	}
	return fields
}

// ids matches the session ID in a reply to HELLO, which differs between servers.
var ids = regexp.MustCompile(`(\$2\r\nid\r\n:)\d+`)

// compare sends the same pipeline to a redis-server and to a Handler, and compares the
// replies.
func compare(t *testing.T, addr string, cfg Config, text string) {
	t.Helper()
	pipeline := dialogue(t, text)
	theirs := exchange(t, addr, pipeline)
	h := New(cfg)
	ours := ask(h, open(h, 1), pipeline...)
	mask := func(s string) string {
		return strings.ReplaceAll(ids.ReplaceAllString(s, "${1}N"), "\r\n", "\n")
	}
	require.Equal(t, mask(theirs), mask(ours), text)
}

// dialogue returns a pipeline with one command per line. Words may be quoted as in Go.
func dialogue(t *testing.T, text string) (pipeline []resp.Command) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			pipeline = append(pipeline, proxytest.Words(t, line))
		}
	}
	return pipeline
}

// exchange sends a pipeline, followed by QUIT, to a redis-server and returns the replies.
func exchange(t *testing.T, addr string, pipeline []resp.Command) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	w := bufio.NewWriter(conn)
	var b []byte
	for _, args := range append(pipeline[:len(pipeline):len(pipeline)], words("QUIT")) {
		b = resp.AppendArray(b[:0], len(args))
		for _, a := range args {
			b = resp.AppendBulk(b, a)
		}
		_, err := w.Write(b)
		require.NoError(t, err)
	}
	require.NoError(t, w.Flush())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	text := string(answer)
	if string(pipeline[len(pipeline)-1][0]) != "QUIT" {
		text = strings.TrimSuffix(text, "+OK\r\n")
	}
	return text
}

// skipReply returns what follows the first reply in b.
func skipReply(b []byte) ([]byte, bool) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 || bytes.ContainsAny(line, "\r\n") {
		return nil, false
	}
	n := 0
	if strings.ContainsRune("$=*~>%:", rune(line[0])) {
		var err error
		if n, err = strconv.Atoi(string(line[1:])); err != nil {
			return nil, false
		}
	}
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return rest, n == -1
		}
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return nil, false
		}
		return rest[n+2:], true
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for ; n > 0; n-- {
			var ok bool
			if rest, ok = skipReply(rest); !ok {
				return nil, false
			}
		}
		return rest, true
	case '+', '-', ':':
		return rest, true
	case '_':
		return rest, len(line) == 1
	}
	return nil, false
}
