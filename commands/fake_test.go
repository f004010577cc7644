package commands

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// fakeEngine decides without a clock: what was admitted counts for ever. Keys that
// begin with "away" are on a node that does not answer.
type fakeEngine struct {
	used  map[string]int64
	calls []int // requests of each Do
}

func newFakeEngine() *fakeEngine { return &fakeEngine{used: make(map[string]int64)} }

func (f *fakeEngine) Close() error { return nil }

func (f *fakeEngine) Do(p *engine.Pipeline) {
	f.calls = append(f.calls, len(p.Requests))
	p.Results = make([]engine.Result, len(p.Requests))
	for i := range p.Requests {
		p.Results[i] = f.answer(&p.Requests[i])
	}
}

func (f *fakeEngine) answer(r *engine.Request) (res engine.Result) {
	key := string(r.Key)
	if strings.HasPrefix(key, "away") {
		res.Err = &engine.Unavailable{Node: "10.0.0.1:6379", Why: "no answer in 50ms"}
		return res
	}
	switch r.Op {
	case engine.OpReset:
		_, res.Reset = f.used[key]
		delete(f.used, key)
	case engine.OpInspect:
		if used, ok := f.used[key]; ok {
			res.States = []engine.State{{
				Op: engine.OpSlide, Window: 60_000, Buckets: 1, Used: used, Limit: 5, Remaining: 5 - used,
				Node: "embedded", TTL: 60_001, Rate: 1,
				Parts: []engine.Part{{Part: 1, Node: "10.0.0.2:6379", Held: 3, Used: 2, Lease: 900}},
			}}
		}
	case engine.OpForward:
		res.Raw = fmt.Appendf(nil, "+forwarded %s, resp3 %t\r\n", r.Args[0], r.RESP3)
	case engine.OpThrottle:
		res.Decision = f.decide(key, r.Throttle.Burst+1, r.Cost)
		if r.Cost > r.Throttle.Burst+1 {
			res.RetryAfter = -1
		}
	default:
		res.Decision = f.decide(key, r.Windows[0].Limit, r.Cost)
	}
	return res
}

func (f *fakeEngine) decide(key string, limit, cost int64) engine.Decision {
	used := f.used[key]
	d := engine.Decision{Limit: limit, ResetAfter: 60_001}
	if d.Allowed = used+max(cost, 1) <= limit; d.Allowed && cost > 0 {
		used += cost
		f.used[key] = used
	}
	if !d.Allowed {
		d.RetryAfter = 1500
	}
	d.Remaining = limit - used
	return d
}

// fakeHot knows two busy keys.
type fakeHot struct{}

func (fakeHot) HotKeys(n int) []engine.HotKey {
	return []engine.HotKey{
		{Key: []byte("busy"), Rate: 900, Admitted: 10, Denied: 890, Parts: 4},
		{Key: []byte("idle"), Rate: 1, Admitted: 1, Denied: 0, Parts: 1},
	}[:min(n, 2)]
}

// fakeClients remembers whom CLIENT KILL closed.
type fakeClients struct {
	killed []int64
}

func (f *fakeClients) Kill(id int64) bool {
	f.killed = append(f.killed, id)
	return true
}

// at is the time at which tests run.
var at = time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

// testConfig is a handler's configuration with nothing real in it.
func testConfig(e engine.Engine) Config {
	return Config{
		Engine:  e,
		Version: "1.2.3",
		Hot:     fakeHot{},
		Clients: new(fakeClients),
		Now:     func() time.Time { return at },
		Settings: func(pattern string) (found [][2]string) {
			for _, s := range [][2]string{{"maxclients", "10000"}, {"port", "6380"}, {"timeout", "0"}} {
				if Match(pattern, s[0]) {
					found = append(found, s)
				}
			}
			return found
		},
		Info: func() []Section {
			return []Section{{"Engine", [][2]string{{"engine", "fake"}}}}
		},
	}
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

// words makes a command.
func words(ws ...string) resp.Command {
	args := make(resp.Command, len(ws))
	for i, w := range ws {
		args[i] = []byte(w)
	}
	return args
}

// ask serves one pipeline and returns what was answered.
func ask(h *Handler, s *resp.Session, pipeline ...resp.Command) string {
	s.Out = s.Out[:0]
	h.Serve(s, pipeline)
	return string(s.Out)
}

// requiring is an ACL of the default user with a password.
func requiring(password string) *ACL {
	a, err := NewACL(nil, password)
	if err != nil {
		panic(err)
	}
	return a
}
