package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// watcher reads a stream.
type watcher struct {
	answer *http.Response
	lines  *bufio.Scanner
}

// watch opens a stream as a user.
func (s *site) watch(t *testing.T, user string) *watcher {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/api/stream", nil)
	require.NoError(t, err)
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return &watcher{answer, lines}
}

// next reads one event into to, and returns its name; "" at the end of the stream.
func (w *watcher) next(t *testing.T, to any) string {
	t.Helper()
	if !w.lines.Scan() {
		return ""
	}
	name, ok := strings.CutPrefix(w.lines.Text(), "event: ")
	require.True(t, ok, w.lines.Text())
	require.True(t, w.lines.Scan())
	data, ok := strings.CutPrefix(w.lines.Text(), "data: ")
	require.True(t, ok, w.lines.Text())
	require.NoError(t, json.Unmarshal([]byte(data), to))
	require.True(t, w.lines.Scan())
	require.Empty(t, w.lines.Text())
	return name
}

func TestStreamShowsHistoryThenSnapshots(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) {
		s.cfg.Engine.(*fakeEngine).node = "embedded"
		s.http.ReadTimeout, s.http.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond // the stream outlasts those of a request
	})
	require.Eventually(t, func() bool { return len(s.history.all()) > 0 }, 20*time.Second, time.Millisecond)
	decide(s.observer, "sh\xffop:1", limit.Slide, 1000, time.Millisecond, engine.Result{Decision: limit.Decision{Limit: 9, Remaining: 2}})
	w := s.watch(t, "")
	require.Equal(t, "text/event-stream", w.answer.Header.Get("Content-Type"))
	var past struct {
		Points []map[string]any   `json:"points"`
		Trails map[string][]tally `json:"trails"`
	}
	require.Equal(t, "history", w.next(t, &past))
	require.Contains(t, past.Trails, ids.EncodeToString([]byte("sh\xffop:1")))
	require.NotEmpty(t, past.Points)
	require.Contains(t, past.Points[0], "denied")
	require.Zero(t, past.Points[0]["denied"])
	var first, second snapshot
	require.Equal(t, "snapshot", w.next(t, &first))
	require.Equal(t, "snapshot", w.next(t, &second))
	require.Greater(t, second.Time, first.Time)
	require.Equal(t, "embedded", first.Engine)
	require.Equal(t, "0.0.0", first.Version)
	require.Equal(t, &memoryUse{Used: 6, Max: 7, Keys: 5}, first.Memory)
	require.Len(t, first.Keys, 1)
	require.Equal(t, "sh\uFFFDop:1", first.Keys[0].Key)
	id, err := ids.DecodeString(first.Keys[0].ID)
	require.NoError(t, err)
	require.Equal(t, "sh\xffop:1", string(id))
	require.EqualValues(t, 1000, first.Keys[0].Denied)
	require.Equal(t, 3, first.Keys[0].Shards)
	require.EqualValues(t, 9, first.Keys[0].Limit)
	require.EqualValues(t, 2, first.Keys[0].Remaining)
}

func TestStreamShowsTheNewestDenials(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "shop on >hush ~shop:* +rl.hotkeys")}, NoNodes, nil)
	var skip any
	all, shop := snapshot{}, snapshot{}
	at := time.UnixMilli(1_700_000_000_123)
	shopped := decisionlog.Denial{
		Time: at, Command: "rl.slide", Policy: "shop", Key: []byte("shop:1"), Limit: 5, Window: time.Minute, Used: 4, RetryAfter: 30 * time.Second,
		Node: "a:1", Client: "10.0.0.9:4711", ClientName: "web-1", Count: 7,
	}
	other := shopped
	other.Key, other.Policy = []byte("mail:2"), "shop"
	mailed := decisionlog.Denial{Time: at, Command: "rl.fixed", Key: []byte("mail:1"), Limit: 5, Window: time.Second, Used: -1, Fail: engine.FailClosed, Node: "b:1", Client: "10.0.0.9:4711", Shadow: true, Count: 1}
	s.deny(decisionlog.Group{Policy: "shop", Count: 20, Keys: []decisionlog.Denial{shopped, other}}, decisionlog.Group{Prefix: "ma\xffil:", Count: 3, Keys: []decisionlog.Denial{mailed}})
	w := s.watch(t, "")
	require.Equal(t, "history", w.next(t, &skip))
	require.Equal(t, "snapshot", w.next(t, &all))
	w = s.watch(t, "shop:hush")
	require.Equal(t, "history", w.next(t, &skip))
	require.Equal(t, "snapshot", w.next(t, &shop))
	first := denial{
		named: name([]byte("shop:1")), Time: 1_700_000_000_123, Command: "rl.slide", Policy: "shop", Limit: 5, Window: 60_000, Used: 4, RetryAfter: 30_000,
		Node: "a:1", Client: "10.0.0.9:4711 web-1", Count: 7,
	}
	second := first
	second.named = name([]byte("mail:2"))
	third := denial{named: name([]byte("mail:1")), Time: first.Time, Command: "rl.fixed", Limit: 5, Window: 1000, Used: -1, Node: "b:1", Fail: "closed", Shadow: true, Client: "10.0.0.9:4711", Count: 1}
	require.Equal(t, []denialGroup{{Policy: "shop", Count: 20, Keys: []denial{first, second}}, {Prefix: "ma\uFFFDil:", Count: 3, Keys: []denial{third}}}, all.Denials)
	first.Client = ""
	require.Equal(t, []denialGroup{{Policy: "shop", Count: 7, Keys: []denial{first}}}, shop.Denials, "the user may not see other clients, nor other keys, nor how many denials they had")
}

// Users see only what they may see.
func TestStreamShowsWhatTheUserMaySee(t *testing.T) {
	t.Parallel()
	s := start(t, Access{Admin: true, ACL: users(t, "default off", "boss on >hush ~* +@all", "shop on >hush ~shop:* +rl.hotkeys",
		"reader on >hush %R~* +rl.hotkeys +rl.nodes", "none on >hush ~* +@all -rl.hotkeys")}, NoNodes, nil)
	s.engine.set(engine.NodeInfo{Name: "a:1", State: "up", Facts: &engine.NodeFacts{Latency: 2 * time.Millisecond, Offset: -time.Millisecond}}, engine.NodeInfo{Name: "b:1", State: "down", Why: "cut off"})
	for i := range 30 {
		for _, tenant := range []string{"mail", "shop"} {
			decide(s.observer, fmt.Sprintf("%s:%d", tenant, i), limit.Slide, 20*(i+1), time.Millisecond, engine.Result{})
		}
	}
	var skip any
	seen := make(map[string]snapshot)
	for _, user := range []string{"boss", "shop", "reader"} {
		w, shown := s.watch(t, user+":hush"), snapshot{}
		require.Equal(t, "history", w.next(t, &skip))
		require.Equal(t, "snapshot", w.next(t, &shown))
		require.Len(t, shown.Keys, maxShown)
		seen[user] = shown
	}
	for _, k := range seen["shop"].Keys {
		require.True(t, strings.HasPrefix(k.Key, "shop:"), k.Key)
	}
	require.Contains(t, fmt.Sprint(seen["reader"].Keys), "mail:")
	require.True(t, seen["boss"].Admin)
	require.False(t, seen["shop"].Admin)
	require.Empty(t, seen["shop"].Nodes)
	require.Len(t, seen["reader"].Nodes, 2)
	require.EqualValues(t, 2000, *seen["boss"].Nodes[0].Latency)
	require.EqualValues(t, -1000, *seen["boss"].Nodes[0].Offset)
	require.Equal(t, node{Name: "b:1", State: "down", Why: "cut off"}, seen["boss"].Nodes[1])
	require.Nil(t, seen["boss"].Memory)
	code, body := s.get(t, "/api/stream", "none:hush")
	require.Equal(t, http.StatusForbidden, code)
	require.JSONEq(t, `{"error":"the user may not run rl.hotkeys"}`, body)
	code, _ = s.get(t, "/api/stream", "")
	require.Equal(t, http.StatusUnauthorized, code)
}

// What a user sees besides keys depends on the commands that the user may run.
func TestFiguresNeedTheRightToTheirCommands(t *testing.T) {
	t.Parallel()
	all := &scene{snapshot: snapshot{Memory: &memoryUse{}, Nodes: []node{{}}}, denials: []decisionlog.Group{{Keys: []decisionlog.Denial{{Client: "192.0.2.1:5"}}}}}
	for _, command := range []string{"ping", "info", "rl.nodes", "client|list", "rl.reset"} {
		u, ok := users(t, "some on >hush ~* +rl.hotkeys +"+command).Login([]byte("some"), []byte("hush"))
		require.True(t, ok)
		shown := all.seenBy(u, &Access{Admin: true})
		require.Equal(t, command == "info", shown.Memory != nil, command)
		require.Equal(t, command == "rl.nodes", len(shown.Nodes) > 0, command)
		require.Equal(t, command == "client|list", shown.Denials[0].Keys[0].Client != "", command)
		require.Equal(t, command == "rl.reset", shown.Admin, command)
		require.False(t, all.seenBy(u, &Access{}).Admin, command)
	}
}

func TestNodesShowTheirRecentRoundTrips(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) { s.sampling.Do(func() {}) }) // the test is the sampler
	var trips histogram.H
	latency := func() *int64 {
		s.engine.set(engine.NodeInfo{Name: "a:1", State: "up", Traffic: &engine.Traffic{Waiting: 7, RoundTrips: trips.Snapshot()}})
		n := s.scene(point{}).Nodes[0]
		require.Equal(t, 7, n.Queue)
		return n.Latency
	}
	trips.Add(time.Hour, 100)
	require.Nil(t, latency())
	trips.Add(time.Millisecond, 100)
	require.InDelta(t, 1000, *latency(), 130)
	require.Nil(t, latency(), "nothing was sent since")
}

func TestReloadEndsStreamsThatAreNoLongerAllowed(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "shop on >hush ~* +rl.hotkeys", "mail on >hush ~* +rl.hotkeys", "gone on >hush ~* +rl.hotkeys")}, NoNodes, nil)
	var skip any
	all := make(map[string]*watcher)
	for _, user := range []string{"shop:hush", "mail:hush", "gone:hush", ""} {
		all[user] = s.watch(t, user)
		require.Equal(t, "history", all[user].next(t, &skip))
	}
	s.SetRules(Access{ACL: users(t, "default on >new ~* +@all", "shop on >new ~* +rl.hotkeys", "mail on >hush ~* +ping")})
	for _, user := range []string{"mail:hush", "gone:hush", ""} {
		for all[user].next(t, &skip) != "" { // ends with the stream
			continue
		}
		require.NoError(t, all[user].lines.Err(), "%q: the server ends the stream", user)
	}
	require.Equal(t, "snapshot", all["shop:hush"].next(t, &skip))
	require.Len(t, s.streams.all(), 1)
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	var skip any
	var all []*watcher
	for range maxStreams {
		w := s.watch(t, "")
		require.Equal(t, "history", w.next(t, &skip))
		all = append(all, w)
	}
	code, body := s.get(t, "/api/stream", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.JSONEq(t, `{"error":"too many streams are open"}`, body)
	require.NoError(t, all[0].answer.Body.Close())
	require.Eventually(t, func() bool { return len(s.streams.all()) < maxStreams }, 20*time.Second, time.Millisecond)
	require.Equal(t, "history", s.watch(t, "").next(t, &skip))
}

// A watcher that does not read misses snapshots. It delays nothing, and its stream ends.
func TestSlowWatchersMissSnapshots(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) {
		s.eventTime = 100 * time.Millisecond
		s.sampling.Do(func() {}) // the test is the sampler
	})
	for i := range 20 { // long names make large events, which soon fill all buffers
		decide(s.observer, fmt.Sprintf("%d:%s", i, strings.Repeat("k", 4000)), limit.Slide, 10_000, time.Millisecond, engine.Result{})
	}
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(c, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.streams.all()) == 1 }, 20*time.Second, time.Millisecond)
	slow := s.streams.all()[0]
	for range 1000 { // as the sampler does, but faster
		s.publish(point{Time: 1})
	}
	require.LessOrEqual(t, len(slow.next), 1)
	require.Eventually(t, func() bool {
		s.publish(point{Time: 1})
		return len(s.streams.all()) == 0
	}, 20*time.Second, time.Millisecond)
}
