package web

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyPath has the paths of the server that need a user, and some unknown ones.
var everyPath = []string{"/", "/metrics", "/api/stream", "/api/key?id=AA", "/api/reset", "/readyz", "/none", "/healthz/", "//healthz", "/healthz/../metrics"}

func TestOnlyHealthNeedsNoUser(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default off", "boss on >hush ~* +@all")}, NoNodes, nil)
	code, body := s.get(t, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	for _, path := range everyPath {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			got := s.raw(t, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			require.True(t, strings.HasPrefix(got, "HTTP/1.1 401 "), "%s %s: %s", method, path, got)
			require.Contains(t, got, "\r\nWww-Authenticate: Basic realm=\"rlproxy\"")
		}
	}
	for _, line := range []string{"OPTIONS * HTTP/1.1", "GET http://elsewhere/metrics HTTP/1.1", "CONNECT /metrics HTTP/1.1"} {
		got := s.raw(t, line+"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		require.True(t, strings.HasPrefix(got, "HTTP/1.1 401 "), "%s: %s", line, got)
	}
	require.Zero(t, s.refused.Load(), "no request had a password")
}

// foreign is a listener whose clients appear to be on another machine.
type foreign struct{ net.Listener }

func (f foreign) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	return foreignConn{c}, err
}

type foreignConn struct{ net.Conn }

func (foreignConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func TestProtectedModeRefusesOtherMachines(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := startOn(t, foreign{l}, Access{ACL: users(t), Protected: true}, NoNodes, nil)
	code, _ := s.get(t, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
	for _, path := range everyPath {
		code, body := s.get(t, path, "default:any")
		require.Equal(t, http.StatusForbidden, code, path)
		require.Contains(t, body, "protected mode")
	}
	s.SetRules(Access{ACL: users(t)})
	code, _ = s.get(t, "/metrics", "")
	require.Equal(t, http.StatusOK, code)
}

func TestHostMustNameThisMachineIfThereIsNoPassword(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	ask := func(host string) string {
		return s.raw(t, "GET /readyz HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")[9:12]
	}
	for host, want := range map[string]string{
		"localhost": "200", "LOCALHOST:6381": "200", "a.localhost": "200", "127.0.0.1:6381": "200", "[::1]:6381": "200", "10.0.0.1": "200",
		"evil.example": "403", "evil.example:6381": "403", "127.0.0.1.evil.example": "403", "localhost.evil.example": "403", "": "200",
	} {
		require.Equal(t, want, ask(host), host)
	}
	require.Equal(t, "200", s.raw(t, "GET /readyz HTTP/1.0\r\n\r\n")[9:12], "a probe that sends no Host")
	s.SetRules(Access{ACL: users(t, "default on >hush ~* +@all")})
	require.Equal(t, "401", ask("evil.example"))
	code, _ := s.get(t, "/readyz", "default:hush")
	require.Equal(t, http.StatusOK, code)
}

func TestPanicCostsOneRequest(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, AnyNode, func(s *Server) {
		s.http.Handler = s.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a mistake") }))
	})
	_, err := http.Get("http://" + s.addr + "/metrics") //nolint:bodyclose // there is none
	require.Error(t, err)
	_, err = http.Get("http://" + s.addr + "/healthz") //nolint:bodyclose // there is none
	require.Error(t, err)
	require.EqualValues(t, 2, s.panics.Load())
	require.Equal(t, 2, strings.Count(s.log.String(), `msg="panic while answering a request"`), s.log)
	require.Contains(t, s.log.String(), "guard_test.go")
	require.Contains(t, s.log.String(), `panic="a mistake"`)
}

func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default on >hush ~* +@all")}, NoNodes, nil)
	for _, path := range append(everyPath, "/healthz") {
		answer, err := http.Get("http://" + s.addr + path)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'", path)
		require.Contains(t, answer.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "DENY", answer.Header.Get("X-Frame-Options"), path)
		require.Equal(t, "same-origin", answer.Header.Get("Cross-Origin-Resource-Policy"), path)
		require.Equal(t, "no-referrer", answer.Header.Get("Referrer-Policy"), path)
		require.Equal(t, "no-store", answer.Header.Get("Cache-Control"), path)
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"), path)
	}
}
