package tests

import (
	"bufio"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// TestPingAsksTheRlproxyOfAConfiguration starts rlproxy with the directives that ping then gets.
func TestPingAsksTheRlproxyOfAConfiguration(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	secure := []string{"--tls-cert-file", cert, "--tls-key-file", key}
	at := func() string { return strconv.Itoa(redistest.FreePort(t)) }
	socket := filepath.Join(t.TempDir(), "s")
	for name, args := range map[string][]string{
		"port":        {"--port", at()},
		"all":         {"--port", at(), "--bind", "*"},
		"password":    {"--port", at(), "--requirepass", "hush"},
		"TLS":         append([]string{"--port", "0", "--tls-port", at(), "--tls-auth-clients", "no"}, secure...),
		"certificate": append([]string{"--port", "0", "--tls-port", at(), "--tls-ca-cert-file", a.file}, secure...),
		"socket":      {"--port", at(), "--bind", "", "--unixsocket", socket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ping := append([]string{"ping"}, args...)
			code, out := outcome(t, ping...)
			require.Equal(t, 1, code, out)
			p := startProxy(t, args...)
			eventually(t, "an answer", func() bool {
				code, out = outcome(t, ping...)
				return code == 0 || !p.Running()
			})
			require.Zero(t, code, out)
			require.Contains(t, out, " answers ")
			p.stop(t)
			code, out = outcome(t, ping...)
			require.Equal(t, 1, code, out)
		})
	}
}

// Something that is not rlproxy, or does not answer, is not taken for one that works.
func TestPingRefusesOtherAnswers(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"-ERR max number of clients reached\r\n": "it answered -ERR max number of clients reached",
		"HTTP/1.1 400 Bad Request\r\n":           "it answered HTTP/1.1 400 Bad Request",
		"":                                       "EOF",
		"+PONG":                                  "i/o timeout",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() { // ends with the client, which ping closes
			defer close(ended)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(conn)
			_, _ = r.ReadString('\n') // the request
			_, _ = conn.Write([]byte(reply))
			if reply == "+PONG" {
				_, _ = r.ReadByte() // until ping gives up
			}
			_ = conn.Close()
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		code, out := outcome(t, "ping", "--bind", "127.0.0.1", "--port", port)
		require.Equal(t, 1, code)
		require.Contains(t, out, want)
		<-ended
		require.NoError(t, l.Close())
	}
	code, out := outcome(t, "ping", "--port", "0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "port is 0, which is a free port that ping does not know")
}
