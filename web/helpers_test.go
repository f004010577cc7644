package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/web/metrics"
)

// fakeEngine is an engine whose nodes and answers a test sets.
type fakeEngine struct {
	engine.Engine // nil: a call that a test does not expect panics
	node          string
	mu            sync.Mutex
	nodes         []engine.NodeInfo                         // guarded by mu
	answer        func(r *engine.Request, a *engine.Result) // guarded by mu
}

func (e *fakeEngine) Where([]byte) (string, int) { return e.node, 3 }

func (e *fakeEngine) Stats() []engine.Stat {
	if e.node != "embedded" {
		return []engine.Stat{{Name: "engine", Text: "redis"}}
	}
	return []engine.Stat{{Name: "engine", Text: "embedded"}, {Name: "keys", Value: 5}, {Name: "memory", Value: 6}, {Name: "max_memory", Value: 7}}
}

func (e *fakeEngine) Do(p *engine.Pipeline) {
	e.mu.Lock()
	answer := e.answer
	e.mu.Unlock()
	p.Grow()
	for i := range p.Requests {
		if answer != nil {
			answer(&p.Requests[i], &p.Results[i])
		}
	}
}

// answers makes the engine answer with f.
func (e *fakeEngine) answers(f func(r *engine.Request, a *engine.Result)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

func (e *fakeEngine) Nodes() []engine.NodeInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes
}

func (e *fakeEngine) set(nodes ...engine.NodeInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes = nodes
}

// site is a Server that belongs to one test.
type site struct {
	*Server
	engine   *fakeEngine
	observer *observe.Observer
	addr     string
	refused  atomic.Int64 // refused logins
	checked  atomic.Int64 // checks of the nodes
	policies policy.Catalog
	denials  atomic.Pointer[[]decisionlog.Group]
	fleet    atomic.Pointer[[]observe.HotKey]
	stats    atomic.Pointer[[]engine.Stat]
	log      *proxytest.LockedBuffer
}

// users parses lines of a configuration.
func users(t testing.TB, lines ...string) *acl.Users {
	t.Helper()
	var words [][]string
	for _, l := range lines {
		words = append(words, strings.Fields(l))
	}
	list, err := commands.NewACL(words, "")
	require.NoError(t, err)
	return list
}

// start serves on 127.0.0.1 until the test ends. change, if it is not nil, changes the server first.
func start(t *testing.T, rules Access, ready Ready, change func(*Server)) *site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return startOn(t, l, rules, ready, change)
}

func startOn(t *testing.T, l net.Listener, rules Access, ready Ready, change func(*Server)) *site {
	t.Helper()
	s := &site{engine: &fakeEngine{node: "a:1"}, log: &proxytest.LockedBuffer{}}
	s.deny()
	s.fleet.Store(&[]observe.HotKey{})
	s.stats.Store(&[]engine.Stat{})
	s.observer = observe.New(observe.Config{Engine: s.engine})
	s.Server = New(Config{
		Engine: s.engine, Observer: s.observer, Ready: ready,
		Version: "0.0.0", Alive: func() {}, CheckNodes: func() { s.checked.Add(1) },
		Denials:      func() []decisionlog.Group { return *s.denials.Load() },
		FleetKeys:    func() ([]observe.HotKey, int) { return *s.fleet.Load(), 3 },
		Metrics:      metrics.Config{Stats: func() []engine.Stat { return *s.stats.Load() }},
		Policies:     &s.policies,
		LoginRefused: func(...any) { s.refused.Add(1) },
		Logger:       slog.New(slog.NewTextHandler(s.log, nil)),
	}, rules)
	if change != nil {
		change(s.Server)
	}
	s.addr = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, nil) }() // until the clean-up
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-ended)
	})
	return s
}

// deny sets the newest denials.
func (s *site) deny(denials ...decisionlog.Group) { s.denials.Store(&denials) }

// get gets a path as a user, "name:password" or "", and returns the status and the body.
func (s *site) get(t *testing.T, path, user string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+path, nil)
	require.NoError(t, err)
	return do(t, r, user)
}

func do(t *testing.T, r *http.Request, user string) (int, string) {
	t.Helper()
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// raw sends text on a connection of its own and returns everything that it receives.
func (s *site) raw(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	b, err := io.ReadAll(c)
	if !errors.Is(err, syscall.ECONNRESET) { // happens if a request was refused before its end
		require.NoError(t, err)
	}
	return string(b)
}
