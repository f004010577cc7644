package resp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loop is a connection that sends the same pipeline forever.
type loop struct {
	net.Conn
	pipeline string
	rest     string // the part of pipeline that is still to be read
}

func (l *loop) Read(p []byte) (int, error) {
	if l.rest == "" {
		l.rest = l.pipeline
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

const slide = "*4\r\n$8\r\nRL.SLIDE\r\n$16\r\nuser:00000000123\r\n$3\r\n100\r\n$2\r\n60\r\n"

// pauseOnce returns a serve function that closes working at the first pipeline, and goes on
// with it when resume is closed.
func pauseOnce(serve func(*Session, []Command)) (paused func(*Session, []Command), working, resume chan struct{}) {
	working, resume = make(chan struct{}), make(chan struct{})
	var once sync.Once
	return func(s *Session, pipeline []Command) {
		once.Do(func() {
			close(working)
			<-resume
		})
		serve(s, pipeline)
	}, working, resume
}

// ended returns a close function for a handler, and a channel that receives every
// session it is called for.
func ended() (func(*Session), chan *Session) {
	c := make(chan *Session, 100)
	return func(s *Session) { c <- s }, c
}

// corpus holds valid and invalid input. Each entry is the bytes of one connection.
var corpus = []string{
	"", "\r\n", "\n", "\r\n\r\n\r\n", "*0\r\n", "*-1\r\n", "*-5\r\n*1\r\n$4\r\nPING\r\n",
	"*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n",
	"PING\r\n", "PING\n", " PING \r\n", "\tPING\v\r\n", "PING\r\nPING\r\n*1\r\n$4\r\nPING\r\nPING\r\n",
	`ECHO "a\x41\n\r\t\b\a\q\"b"` + "\r\n", `ECHO 'it\'s \n "so"'` + "\r\n", `ECHO a"b c"` + "\r\n",
	`ECHO "\x4"` + "\r\n", `ECHO "\xZZ"` + "\r\n", `ECHO ""` + "\r\n", `"ECHO" ''` + "\r\n",
	`ECHO "a"b` + "\r\nPING\r\n", `ECHO "abc` + "\r\nPING\r\n", "ECHO 'abc\r\n", `ECHO "abc\` + "\r\n", "ECHO '\r\n", "'\n",
	"PING\r\r\n", "ECHO a\rb\r\n",
	"*1\rX$4\rXPINGXX*1\r\n$4\r\nPING\r\n",
	"*01\r\n", "*+1\r\n", "*-0\r\n", "* 1\r\n", "*1 \r\n", "*\r\n", "*-\r\n", "*x\r\n", "*1\n$4\nPING\n\r\n",
	"*2147483648\r\n", "*99999999999999999999\r\n", "*00000000000000000001\r\n",
	"*1\r\n:4\r\n", "*1\r\nPING\r\n", "*1\r\n\r\n\r\n", "*1\r\n\n\r\n", "PING\r\n*2\r\n$4\r\nECHO\r\n*1\r\nPING\r\n",
	"*1\r\n$-1\r\n", "*1\r\n$04\r\nPING\r\n", "*1\r\n$\r\n", "*1\r\n$x\r\n", "*1\r\n$536870913\r\n", "*1\r\n$99999999999999999999\r\n",
	"$4\r\nPING\r\n", "*1\r\n$4\r\nPIN", "*3\r\n$4\r\nECHO\r\n", "PIN", "*1\r", "*1\r\n$4\r",
	"*11\r\n" + strings.Repeat("$4\r\nECHO\r\n", 11), "*2\r\n$4\r\nECHO\r\n$16385\r\n" + strings.Repeat("x", 16385) + "\r\n",
	"*2\r\n$4\r\nECHO\r\n$16384\r\n" + strings.Repeat("x", 16384) + "\r\n",
	"PING\r\n" + strings.Repeat("x", 70_000), "*" + strings.Repeat("1", 70_000), "*1\r\n$" + strings.Repeat("1", 70_000),
	"*1\r\n" + strings.Repeat("y", 70_000), "ECHO " + strings.Repeat("z", 60_000) + "\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "hOsT: localhost\r\n", "*1\r\n$4\r\npost\r\nPING\r\n",
}

// dribble is a connection that returns one of its chunks per read.
type dribble struct {
	net.Conn
	chunks []string
}

func (d *dribble) Read(p []byte) (int, error) {
	for len(d.chunks) > 0 && d.chunks[0] == "" {
		d.chunks = d.chunks[1:]
	}
	if len(d.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.chunks[0])
	d.chunks[0] = d.chunks[0][n:]
	return n, nil
}

// bytewise cuts s into chunks of n bytes.
func bytewise(s string, n int) []string {
	var chunks []string
	for len(s) > n {
		chunks, s = append(chunks, s[:n]), s[n:]
	}
	return append(chunks, s)
}

// redisServer starts a redis-server on a Unix socket of its own and returns the
// socket's path.
func redisServer(t *testing.T, args ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "resp") // the path of a Unix socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", append([]string{
		"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--daemonize", "no"}, args...)...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // returns an error, since it was killed
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)
	return socket
}

// converse sends text, closes the sending side and returns everything that comes back. Redis closes
// without reading the rest of a request that it refused, and thereby resets the connection, on a Unix
// socket after its reply has arrived. resets allows that.
func converse(t *testing.T, network, addr, text string, resets bool) string {
	t.Helper()
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	inOrder := func(err error) bool {
		return err == nil || resets && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
	}
	_, err = io.WriteString(conn, text)
	require.True(t, inOrder(err), "%v", err)
	err = conn.(interface{ CloseWrite() error }).CloseWrite()
	require.True(t, inOrder(err), "%v", err)
	reply, err := io.ReadAll(conn)
	require.True(t, inOrder(err), "%v", err)
	return string(reply)
}

// likeRedis answers the commands of the corpus as Redis does.
func likeRedis(s *Session, pipeline []Command) {
	for _, cmd := range pipeline {
		name := strings.ToUpper(string(cmd[0]))
		switch {
		case name == "AUTH":
			s.Trusted = true
			s.Out = AppendSimple(s.Out, "OK")
		case !s.Trusted && (name == "PING" && len(cmd) == 1 || name == "ECHO" && len(cmd) == 2):
			s.Out = AppendError(s.Out, "NOAUTH Authentication required.")
		case name == "PING" && len(cmd) == 1:
			s.Out = AppendSimple(s.Out, "PONG")
		case name == "ECHO" && len(cmd) == 2:
			s.Out = AppendBulk(s.Out, cmd[1])
		case name == "QUIT":
			s.Out = AppendSimple(s.Out, "OK")
			s.CloseAfterReply()
			return
		case name == "ECHO" || name == "PING":
			s.Out = AppendError(s.Out, "ERR wrong number of arguments for '"+strings.ToLower(name)+"' command")
		default:
			msg := "ERR unknown command '" + string(cmd[0]) + "', with args beginning with: "
			for _, arg := range cmd[1:] {
				msg += "'" + string(arg) + "' "
			}
			s.Out = AppendError(s.Out, msg)
		}
	}
}

// handlerFuncs is a Handler made of functions, which may be nil.
type handlerFuncs struct {
	open  func(*Session)
	serve func(*Session, []Command)
	close func(*Session)
}

func (h handlerFuncs) Open(s *Session) {
	if h.open != nil {
		h.open(s)
	}
}

func (h handlerFuncs) Serve(s *Session, pipeline []Command) {
	if h.serve != nil {
		h.serve(s, pipeline)
	}
}

func (h handlerFuncs) Close(s *Session) {
	if h.close != nil {
		h.close(s)
	}
}

// inEventLoop begins the name of a test whose sessions leave their goroutines.
const inEventLoop = "TestInEventLoop/"

// starter is a Starter that answers in goroutines of its own.
type starter struct {
	handlerFuncs
	startsPanics string           // the command at which CanStart panics
	flushing     func()           // called by Flush, unless it is nil
	resumes      func(s *Session) // called by Resume, unless it is nil
	starts       atomic.Int64     // calls of Start
	mu           sync.Mutex
	pending      map[*Session][]Command // guarded by mu
	kept         []*Session             // since the last Flush; guarded by mu
}

func (h *starter) CanStart(s *Session, pipeline []Command) bool {
	if h.startsPanics != "" && string(pipeline[0][0]) == h.startsPanics {
		panic("as asked")
	}
	return s.Trusted
}

func (h *starter) Start(s *Session, pipeline []Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending == nil {
		h.pending = map[*Session][]Command{}
	}
	if h.pending[s] != nil {
		panic("started twice")
	}
	h.pending[s] = pipeline
	if h.starts.Add(1)%3 == 0 {
		h.kept = append(h.kept, s)
	} else {
		go s.Finish()
	}
}

func (h *starter) Finish(s *Session) {
	h.mu.Lock()
	pipeline := h.pending[s]
	delete(h.pending, s)
	h.mu.Unlock()
	h.Serve(s, pipeline)
}

func (h *starter) Resume(s *Session) {
	if h.resumes != nil {
		h.resumes(s)
	}
}

func (h *starter) Flush() {
	h.mu.Lock()
	kept := h.kept
	h.kept = nil
	h.mu.Unlock()
	for _, s := range kept {
		go s.Finish()
	}
	if h.flushing != nil {
		h.flushing()
	}
}

// trust is the open function of handlers that ask for no password.
func trust(s *Session) { s.Trusted = true }

// echoArgs is a serve function that replies to each command with its words.
func echoArgs(s *Session, pipeline []Command) {
	for _, cmd := range pipeline {
		s.Out = AppendArray(s.Out, len(cmd))
		for _, arg := range cmd {
			s.Out = AppendBulk(s.Out, arg)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// start serves h on a free port and returns the server and its address. The server is
// shut down at the end of the test.
func start(t testing.TB, cfg Config, h Handler) (*Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return startOn(t, cfg, h, ln), ln.Addr().String()
}

func startOn(t testing.TB, cfg Config, h Handler, ln net.Listener) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	if funcs, ok := h.(handlerFuncs); ok && strings.HasPrefix(t.Name(), inEventLoop) {
		h = &starter{handlerFuncs: funcs}
	}
	srv := NewServer(cfg, h)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Shutdown(ctx) // cuts off what the test left open
		require.NoError(t, <-served)
		require.Zero(t, srv.Stats().Current.Load())
		require.Zero(t, srv.cfg.Memory.Reserved())
	})
	return srv
}

// dial connects, with a deadline for all reads and writes of the test.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

func send(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// expect reads exactly want.
func expect(t testing.TB, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	require.NoError(t, err, "after %q", got[:n])
	require.Equal(t, want, string(got))
}

// expectEnd reads want and then the end of the connection.
func expectEnd(t testing.TB, conn net.Conn, want string) {
	t.Helper()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// startTLS serves likeRedis under TLS. It returns the server, its address and the
// clients' configuration.
func startTLS(t *testing.T, cfg Config) (*Server, string, *tls.Config) {
	t.Helper()
	return serveTLS(t, cfg, handlerFuncs{open: trust, serve: likeRedis})
}

// serveTLS is startTLS for any handler.
func serveTLS(t *testing.T, cfg Config, h Handler) (*Server, string, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv := startOn(t, cfg, h, tls.NewListener(ln, server))
	return srv, ln.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost"}
}
