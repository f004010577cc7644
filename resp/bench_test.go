package resp

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// loop is a connection that sends the same pipeline for ever.
type loop struct {
	net.Conn
	pipeline string
	rest     string // of the round under way
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

// readPipeline returns a function that reads the next pipeline.
func readPipeline(depth int) func() int {
	cfg := Config{}.withDefaults()
	r := newReader(&loop{pipeline: strings.Repeat(slide, depth)}, &cfg, func(int) bool { return true })
	return func() int {
		if _, err := r.fill(); err != nil {
			panic(err)
		}
		n := 0
		for {
			slice, err := r.slice(true)
			if err != nil {
				panic(err)
			}
			if len(slice) == 0 {
				return n
			}
			n += len(slice)
		}
	}
}

func BenchmarkReadPipeline64(b *testing.B) {
	read := readPipeline(64)
	b.ReportAllocs()
	commands := 0
	for b.Loop() {
		commands += read()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(commands), "ns/command")
}

// A warm session reads without allocating, but for what the pool loses: the race
// detector has it lose some on purpose.
func TestReadingDoesNotAllocate(t *testing.T) {
	read := readPipeline(64)
	commands := read()
	allocs := testing.AllocsPerRun(1000, func() { commands += read() })
	require.Less(t, allocs/64, 0.1, "per command")
	require.Greater(t, commands, 1000)
}

func BenchmarkServe64(b *testing.B) {
	_, addr := start(b, Config{}, handlerFuncs{open: trust, serve: func(s *Session, pipeline []Command) {
		for range pipeline {
			s.Out = AppendInt(s.Out, 1)
		}
	}})
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer func() { _ = conn.Close() }()
	question, answer := []byte(strings.Repeat(slide, 64)), make([]byte, 64*4)
	b.ReportAllocs()
	commands := 0
	for b.Loop() {
		if _, err := conn.Write(question); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			b.Fatal(err)
		}
		commands += 64
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(commands), "ns/command")
}
