package traffic

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// increments is a plan's commands.
var increments = [][]string{{"INCR", "k:" + Variable}}

// answering starts a server that answers each command when gate lets it, and returns its address
// with the number of commands that it has read.
func answering(t *testing.T, gate func(), reply string) (string, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	read := new(atomic.Int64)
	go func() { // ends with the listener
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() { // ends with the connection
				for r := bufio.NewReader(c); ; {
					if _, err := readReply(r); err != nil { // commands have the form of replies
						return
					}
					read.Add(1)
					gate()
					if _, err := c.Write([]byte(reply)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), read
}

func TestClientsSendExactlySoManyCommands(t *testing.T) {
	a, readA := answering(t, func() {}, ":1\r\n")
	b, readB := answering(t, func() {}, ":1\r\n")
	p := Plan{Servers: []string{a, b}, Commands: increments, Keys: 10, Clients: 3, Depth: 16}
	f, err := p.Ask(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, int64(1000), readA.Load()+readB.Load())
	require.InDelta(t, 667, readA.Load(), 2, "connections are spread in turn: two of three clients ask the first server")
	require.Positive(t, f.Rate)
}

func TestClientsEndAtAnError(t *testing.T) {
	front, _ := answering(t, func() {}, "-NOSCRIPT No matching script\r\n")
	p := Plan{Servers: []string{front}, Commands: increments, Keys: 10, Clients: 2, Depth: 1}
	_, err := p.Ask(t.Context(), 100)
	require.ErrorContains(t, err, "NOSCRIPT")
	_, err = p.Pace(t.Context(), 100, 1000, nil)
	require.ErrorContains(t, err, "NOSCRIPT")
}

func TestStreamAsksCommandsInTurn(t *testing.T) {
	p := Plan{Commands: [][]string{{"A", Variable}, {"B", "x" + Variable + "y"}}, Keys: 1000}
	s := p.stream(0)
	numbers := []int{7, 42, 999}
	s.key = func() int { return numbers[s.made-1] }
	var out []byte
	for range numbers {
		out = s.next(out)
	}
	want := Encode(nil, p.Commands[0], 7)
	want = Encode(want, p.Commands[1], 42)
	want = Encode(want, p.Commands[0], 999)
	require.Equal(t, string(want), string(out))
	require.Equal(t, "*1\r\n$4\r\nPING\r\n", string(newTemplate([]string{"PING"}).append(nil, 5)))
}

func TestSkipReplyKnowsWhatDecisionsSay(t *testing.T) {
	for reply, want := range map[string]said{
		":1\r\n":              {},
		":0\r\n":              {denied: true},
		"*2\r\n:1\r\n:99\r\n": {},
		"*5\r\n:1\r\n:9\r\n:8\r\n:0\r\n:60001\r\n":  {},
		"*5\r\n:0\r\n:9\r\n:-1\r\n:7\r\n:7\r\n":     {denied: true, byFail: true},
		"*5\r\n:0\r\n:9\r\n:0\r\n:12\r\n:60001\r\n": {denied: true},
		"*5\r\n:1\r\n:9\r\n:8\r\n:-1\r\n:7\r\n":     {}, // CL.THROTTLE
	} {
		r := bufio.NewReader(strings.NewReader(reply + ":5\r\n"))
		got, err := skipReply(r)
		require.NoError(t, err, reply)
		require.Equal(t, want, got, reply)
		rest, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, ":5\r\n", rest, "after %q", reply)
	}
	for _, bad := range []string{"-ERR no\r\n", "*2\r\n:1\r\n-ERR no\r\n", "+OK\r\n", "*x\r\n", ":1"} {
		_, err := skipReply(bufio.NewReader(strings.NewReader(bad)))
		require.Error(t, err, bad)
	}
}

func TestQuantilesAreNearestRanks(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(i+1)*time.Microsecond)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		require.InDelta(t, want, quantile(all, q), 1e-9, strconv.FormatFloat(q, 'g', -1, 64))
	}
	require.InDelta(t, 1, quantile(all[:1], 0.999), 1e-9)
	require.InDelta(t, 10, quantile(all[:10], 0.99), 1e-9, "the ninth does not have 99 of 100 at or below it")
}

func TestEachReturnsAllErrors(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	err := each(3, func(i int) error { return []error{first, nil, second}[i] })
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)
}
