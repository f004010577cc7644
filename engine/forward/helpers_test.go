package forward

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// openNodes opens a fleet that is closed when the test ends.
func openNodes(t testing.TB, timeout time.Duration, urls ...string) *backend.Fleet {
	t.Helper()
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return fleet
}

// openOn opens a forwarder on a fleet. The forwarder is closed when the test ends.
func openOn(t testing.TB, fleet *backend.Fleet, config Config) *Forwarder {
	f := Open(fleet, config)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// open opens a forwarder on nodes, with timeouts that are long enough for a busy machine.
func open(t testing.TB, change func(c *Config), nodes ...*redistest.Server) *Forwarder {
	t.Helper()
	config := Config{Settings: Settings{Timeout: 20 * time.Second}}
	if change != nil {
		change(&config)
	}
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	return openOn(t, openNodes(t, 5*time.Second, urls...), config)
}

func startServers(t testing.TB, n int) []*redistest.Server {
	servers := make([]*redistest.Server, n)
	for i := range servers {
		servers[i] = redistest.Start(t)
	}
	return servers
}

var wordPattern = regexp.MustCompile(`"(?:\\.|[^"\\])*"|\S+`)

// commandLine splits a line into words. Words may be quoted as in Go.
func commandLine(t testing.TB, line string) [][]byte {
	var args [][]byte
	for _, w := range wordPattern.FindAllString(line, -1) {
		if w[0] == '"' {
			plain, err := strconv.Unquote(w)
			require.NoError(t, err, line)
			w = plain
		}
		args = append(args, []byte(w))
	}
	return args
}

// forwardAll sends commands in one pipeline and returns the bytes of each reply, or the
// text of its error.
func forwardAll(t testing.TB, f *Forwarder, proto int, lines ...string) []string {
	var p Pipeline
	for _, line := range lines {
		p.Add(commandLine(t, line), proto == 3)
	}
	f.Do(&p)
	replies := make([]string, len(lines))
	for i := range p.Results {
		if replies[i] = string(slices.Concat(p.Results[i].Raw, slices.Concat(p.Results[i].Rest...))); p.Results[i].Err != nil {
			replies[i] = p.Results[i].Err.Error()
		}
	}
	p.Reset()
	require.Zero(t, p.memory.reserved.Load(), "the memory of replies is released")
	return replies
}

// direct is a connection to a node without rlproxy.
type direct struct {
	net.Conn
	r *bufio.Reader
}

func dialDirect(t testing.TB, s *redistest.Server, proto int) *direct {
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	d := &direct{conn, bufio.NewReader(conn)}
	d.ask(t, commandLine(t, fmt.Sprintf("HELLO %d", proto)))
	return d
}

// ask sends a command and returns the bytes of its reply.
func (d *direct) ask(t testing.TB, args [][]byte) string {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := d.Write(b)
	require.NoError(t, err)
	var reply bytes.Buffer
	require.NoError(t, d.copyReply(&reply))
	return reply.String()
}

func (d *direct) copyReply(to *bytes.Buffer) error {
	line, err := d.r.ReadBytes('\n')
	if err != nil {
		return err
	}
	to.Write(line)
	n, _ := strconv.Atoi(string(line[1 : len(line)-2])) // 0 if the line has no length
	switch line[0] {
	case '$', '=', '!':
		if n >= 0 {
			_, err = io.CopyN(to, d.r, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // and the reply that it precedes
	case '*', '~', '>':
	default:
		return nil
	}
	for range n {
		if err := d.copyReply(to); err != nil {
			return err
		}
	}
	return nil
}

// keysOn returns one key on each node.
func keysOn(f *Forwarder) []any {
	top := f.fleet.Topology()
	keys := make([]any, len(top.Nodes))
	for left, i := len(keys), 0; left > 0; i++ {
		key := fmt.Sprint("k", i)
		if node, _ := top.LocateStored([]byte(key)); keys[node] == nil {
			keys[node] = key
			left--
		}
	}
	return keys
}

// babble starts a node that answers greetings and probes, and every other command with the
// same bytes, until the test ends. It returns the node's URL.
func babble(t testing.TB, reply string) string {
	return answering(t, reply, func(*net.TCPConn) {})
}

// breakOff starts a node like babble, which sends nothing more after its first such answer.
func breakOff(t testing.TB, reply string) string {
	return answering(t, reply, func(c *net.TCPConn) { _ = c.CloseWrite() })
}

// answering starts the node of babble, which calls then after each answer with reply.
func answering(t testing.TB, reply string, then func(*net.TCPConn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // until the listener is closed
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // until the client closes the connection
				defer func() { _ = conn.Close() }()
				d := &direct{conn, bufio.NewReader(conn)}
				for {
					var command bytes.Buffer
					if d.copyReply(&command) != nil {
						return
					}
					text, after := reply, then
					switch line := strings.ToLower(command.String()); {
					case strings.Contains(line, "\r\nhello\r\n"):
						text, after = "-ERR unknown command\r\n", func(*net.TCPConn) {}
					case strings.Contains(line, "\r\nclient\r\n"), strings.Contains(line, "\r\neval\r\n"):
						text, after = "+OK\r\n", func(*net.TCPConn) {}
					}
					if _, err := conn.Write([]byte(text)); err != nil {
						return
					}
					after(conn.(*net.TCPConn))
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String()
}
