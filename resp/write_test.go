package resp

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientsThatDoNotReadAreClosed(t *testing.T) {
	closed, over := ended()
	big := strings.Repeat("x", 1<<20)
	srv, addr := start(t, Config{WriteTimeout: 30 * time.Millisecond}, handlerFuncs{open: trust, close: closed,
		serve: func(s *Session, pipeline []Command) {
			for range pipeline {
				s.Out = AppendBulkString(s.Out, big)
			}
		}})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("GET x\r\n", 64))
	<-over
	require.EqualValues(t, 1, srv.Stats().SlowReaders.Load())
}

func TestLongReplyToAReadingClientIsDelivered(t *testing.T) {
	big := strings.Repeat("x", 32<<20)
	srv, addr := start(t, Config{}, handlerFuncs{open: trust,
		serve: func(s *Session, _ []Command) { s.Out = AppendBulkString(s.Out, big) }})
	conn := dial(t, addr)
	send(t, conn, "GET x\r\n")
	expect(t, conn, string(AppendBulkString(nil, big)))
	require.Zero(t, srv.Stats().SlowReaders.Load())
}

func TestFlushKeepsLargeRepliesFromAddingUp(t *testing.T) {
	big := strings.Repeat("x", 600)
	srv, addr := start(t, Config{OutputBufferLimit: 1000}, handlerFuncs{open: trust,
		serve: func(s *Session, pipeline []Command) {
			for range pipeline {
				s.Out = AppendBulkString(s.Out, big)
				s.Flush()
			}
		}})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("GET x\r\n", 10))
	expect(t, conn, strings.Repeat(string(AppendBulkString(nil, big)), 10))
	big = strings.Repeat("y", 2000)
	send(t, conn, strings.Repeat("GET x\r\n", 10))
	expectEnd(t, conn, "")
	require.EqualValues(t, 1, srv.Stats().OutputLimit.Load())

	alone := Session{Out: []byte("kept")}
	alone.Flush()
	require.Equal(t, "kept", string(alone.Out))
}

func TestOutputBufferLimitClosesConnection(t *testing.T) {
	srv, addr := start(t, Config{OutputBufferLimit: 1000}, handlerFuncs{open: trust, serve: echoArgs})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("x", 900)+"\r\n")
	expect(t, conn, "*1\r\n$900\r\n"+strings.Repeat("x", 900)+"\r\n")
	send(t, conn, strings.Repeat("x", 1000)+"\r\n")
	expectEnd(t, conn, "")
	require.EqualValues(t, 1, srv.Stats().OutputLimit.Load())
}
