package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
)

// Connections that send nothing, or never complete a header, are replaced by new ones.
func TestSilentConnectionsDoNotLockOthersOut(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	var silent []net.Conn
	for i := range 3 * MaxConnections {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		if i%2 == 0 {
			_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nX-Slow: ")
			require.NoError(t, err)
		}
		silent = append(silent, c)
	}
	for range 3 {
		code, _ := s.get(t, "/healthz", "")
		require.Equal(t, http.StatusOK, code)
	}
	require.NoError(t, silent[0].SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := silent[0].Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, net.ErrClosed)
	open, _ := s.conns.Count()
	require.LessOrEqual(t, open, MaxConnections)
	require.Zero(t, s.conns.Refused())
}

// With checks there may be more connections. If they are disabled, the bound is lower again.
func TestTheMostConnectionsFollowTheRules(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	for _, c := range []struct {
		check bool
		most  int
	}{{false, MaxConnections}, {true, MaxCheckConnections}, {false, MaxConnections}} {
		s.SetRules(Access{ACL: users(t), Check: c.check})
		s.hold(t, MaxCheckConnections+1, "", nil)
		require.Eventually(t, func() bool {
			open, _ := s.conns.Count()
			return open == c.most
		}, 20*time.Second, time.Millisecond)
	}
	require.Zero(t, s.conns.Refused())
}

// A connection that is kept open after a request is idle.
func TestConnectionsAreIdleAfterARequest(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, idle := s.conns.Count()
		return idle > 0
	}, 20*time.Second, time.Millisecond)
}

// A connection with a request in progress is not closed for a new one. If all are busy, a new
// connection is refused.
func TestBusyConnectionsAreNotReplaced(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) {
		s.conns.SetMax(2)
		s.http.Handler = s.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			writeLine(w, "done")
		}))
	})
	answers := make(chan string, 2)
	for range 2 {
		go func() { // ends when the handler is released
			answers <- s.raw(t, "GET /healthz HTTP/1.0\r\n\r\n")
		}()
	}
	require.Eventually(t, func() bool {
		open, idle := s.conns.Count()
		return open == 2 && idle == 0
	}, 20*time.Second, time.Millisecond)
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 1, s.conns.Refused())
	close(release)
	for range 2 {
		require.True(t, strings.HasSuffix(<-answers, "done\n"))
	}
}

func TestHugeAndSlowHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, func(s *Server) { s.http.ReadHeaderTimeout = 100 * time.Millisecond })
	got := s.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"+strings.Repeat(fmt.Sprintf("X: %01000d\r\n", 0), 30)+"\r\n")
	require.True(t, strings.HasPrefix(got, "HTTP/1.1 431 "), got)
	require.Empty(t, s.raw(t, "GET /healthz HTTP/1.1\r\nHost: "), "the connection is closed without an answer")
}

// hold opens connections until the test ends, and sends text on each. It reads nothing. If the text has a
// complete header, arrived counts the requests that the server has begun to answer, and hold waits for each.
func (s *site) hold(t *testing.T, n int64, text string, arrived *atomic.Int64) {
	t.Helper()
	for i := range n {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(20*time.Second)))
		_, _ = io.WriteString(c, text) // the connection may be closed already, for a newer one
		if strings.Contains(text, "\r\n\r\n") {
			require.Eventually(t, func() bool { return arrived.Load() > i || s.conns.Refused() > 0 }, 20*time.Second, time.Millisecond)
		}
	}
}

// allIdle reports whether every connection is idle.
func (s *site) allIdle() bool {
	open, idle := s.conns.Count()
	return open == idle
}

// Whatever clients of the same address hold, with or without rights, probes are answered.
func TestProbesAreAnsweredWhateverOthersHold(t *testing.T) {
	t.Parallel()
	const (
		boss  = "Authorization: Basic Ym9zczpodXNo\r\n" // boss:hush
		none  = "Authorization: Basic bm9uZTpodXNo\r\n" // none:hush
		host  = "Host: localhost\r\n"
		json  = "Content-Type: application/json\r\n"
		slow  = "Content-Length: 1000\r\n\r\n{"
		chunk = "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
		reset = "POST /api/reset HTTP/1.1\r\n" + host + json
	)
	for name, text := range map[string]string{
		"silence":                             "",
		"a slow header":                       "GET /healthz HTTP/1.1\r\nX-Slow: ",
		"a slow body without a login":         reset + slow,
		"a slow body without the right":       reset + none + slow,
		"a slow body with the right":          reset + boss + slow,
		"slow chunks without the right":       reset + none + chunk,
		"slow chunks with the right":          reset + boss + chunk,
		"a slow body of a scrape":             "GET /metrics HTTP/1.1\r\n" + host + boss + slow,
		"a slow body of the page":             "GET / HTTP/1.1\r\n" + host + boss + slow,
		"a slow body of a health check":       "GET /healthz HTTP/1.1\r\n" + host + slow,
		"kept open":                           "GET /healthz HTTP/1.1\r\n" + host + "\r\n",
		"a stream without the right":          "GET /api/stream HTTP/1.1\r\n" + host + none + "\r\n",
		"a stream with the right":             "GET /api/stream HTTP/1.1\r\n" + host + boss + "\r\n",
		"many requests, and no answer read":   strings.Repeat("GET / HTTP/1.1\r\n"+host+boss+"\r\n", 100),
		"a request that the engine keeps":     "GET /api/key?id=c2hvcA HTTP/1.1\r\n" + host + boss + "\r\n",
		"a stream, and no event read for now": strings.Repeat("GET /api/stream HTTP/1.1\r\n"+host+boss+"\r\n", 2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var arrived, answered atomic.Int64
			rules := Access{Admin: true, ACL: users(t, "default off", "boss on >hush ~* +@all", "none on >hush ~* +ping")}
			s := start(t, rules, NoNodes, func(s *Server) {
				guarded := s.http.Handler
				s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					connOf(r).SetBusy(true) // as the guard does, but before the request is counted
					arrived.Add(1)
					guarded.ServeHTTP(w, r)
					answered.Add(1)
				})
			})
			release := make(chan struct{})
			s.engine.answers(func(*engine.Request, *engine.Result) { <-release })
			t.Cleanup(func() { close(release) })
			s.hold(t, MaxConnections+6, text, &arrived)
			if strings.HasSuffix(name, "no answer read") {
				require.Eventually(t, s.allIdle, 60*time.Second, 10*time.Millisecond, "once all buffers are full")
			}
			if strings.HasSuffix(name, "of a scrape") { // only a few are answered at a time
				require.Eventually(t, func() bool { return answered.Load() == arrived.Load() }, 60*time.Second, 10*time.Millisecond)
			}
			refused := s.conns.Refused() // while the buffers were not full
			for range 5 {
				for path, user := range map[string]string{"/healthz": "", "/readyz": "boss:hush", "/metrics": "boss:hush"} {
					code, body := s.get(t, path, user)
					require.Equal(t, http.StatusOK, code, "%s: %s", path, body)
				}
			}
			require.Equal(t, refused, s.conns.Refused())
		})
	}
}

// A client that may not send a request is told so before the request has arrived as a whole, and its
// connection is closed soon after.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	s := start(t, Access{Admin: true, ACL: users(t, "default off", "none on >hush ~* +ping")}, NoNodes, nil)
	began := time.Now()
	for login, want := range map[string]string{"": "401", "Authorization: Basic bm9uZTpodXNo\r\n": "403"} {
		for _, path := range []string{"/api/reset", "/metrics", "/none"} {
			got := s.raw(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+login+"Content-Length: 1000\r\n\r\n{")
			require.True(t, strings.HasPrefix(got, "HTTP/1.1 "+want) || path != "/api/reset" && strings.HasPrefix(got, "HTTP/1.1 40"), got)
			require.Contains(t, got, "\r\nConnection: close\r\n")
		}
	}
	require.Less(t, time.Since(began), requestTime, "six requests, each of which ended before its time to send the body")
}
