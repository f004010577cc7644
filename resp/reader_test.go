package resp

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpus is what clients send, well and badly. Each entry is one connection's
// bytes.
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

// dribble is a connection that hands over its chunks one read at a time.
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

// drink reads a stream to its end or to what ends it early.
func drink(t testing.TB, trusted bool, chunks ...string) (cmds [][]string, failure string) {
	held := 0
	cfg := Config{ProtoMaxBulkLen: 1 << 20, QueryBufferLimit: 4 << 20}.withDefaults()
	r := newReader(&dribble{chunks: chunks}, &cfg, func(d int) bool { held += d; return true })
	total := 0
	for {
		n, err := r.fill()
		if err != nil {
			require.Equal(t, io.EOF, err)
			break
		}
		total += n
		if len(r.ws.buf) > max(4*total, keepBuffer) {
			require.Fail(t, "memory must follow what arrived", "%d bytes for %d", len(r.ws.buf), total)
		}
		for {
			slice, err := r.slice(trusted)
			for _, cmd := range slice {
				words := make([]string, len(cmd)) // a copy: cmd holds until the next fill
				for i := range cmd {
					words[i] = string(cmd[i])
				}
				cmds = append(cmds, words)
			}
			if err != nil {
				failure = err.Error()
			}
			if len(slice) == 0 || err != nil {
				break
			}
		}
		if failure != "" {
			break
		}
	}
	r.release()
	require.Zero(t, held, "memory must be given back")
	return cmds, failure
}

// bytewise cuts s into chunks of n bytes.
func bytewise(s string, n int) []string {
	var chunks []string
	for len(s) > n {
		chunks, s = append(chunks, s[:n]), s[n:]
	}
	return append(chunks, s)
}

func TestFragmentation(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		for _, text := range corpus {
			want, wantErr := reference(text, trusted, 1<<20)
			check := func(chunks ...string) {
				got, err := drink(t, trusted, chunks...)
				require.Equal(t, wantErr, err, "%.100q in %d chunks", text, len(chunks))
				require.Equal(t, want, got, "%.100q in %d chunks", text, len(chunks))
			}
			check(text)
			for _, n := range []int{1, 2, 3, 1000, peekBuffer, peekBuffer + 1, baseBuffer, baseBuffer + 1} {
				check(bytewise(text, n)...)
			}
			for i := 1; i < min(len(text), 100); i++ {
				check(text[:i], text[i:])
			}
		}
	}
}

// A time that grew with the square of the size would not end within the test's.
func TestOneByteReadsAreLinear(t *testing.T) {
	const size = 1 << 19
	long := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	many := "*50000\r\n" + strings.Repeat("$1\r\ny\r\n", 50_000)
	line := strings.Repeat("z ", maxLine/2) + "\n"
	got, err := drink(t, true, bytewise(long+many+line, 1)...)
	require.Empty(t, err)
	require.Len(t, got, 3)
	require.Len(t, got[0][1], size)
	require.Len(t, got[1], 50_000)
	require.Len(t, got[2], maxLine/2)
}

func TestSlicesAreBounded(t *testing.T) {
	small := strings.Repeat("*1\r\n$4\r\nPING\r\n", 10_000)
	large := strings.Repeat("*2\r\n$4\r\nECHO\r\n$50000\r\n"+strings.Repeat("x", 50_000)+"\r\n", 40)
	cfg := Config{}.withDefaults()
	r := newReader(&dribble{chunks: []string{small, large, "*1\r\n$200000\r\n" + strings.Repeat("y", 200_000) + "\r\n" + large}}, &cfg,
		func(int) bool { return true })
	defer r.release()
	commands := 0
	for {
		if _, err := r.fill(); err != nil {
			require.Equal(t, io.EOF, err)
			break
		}
		for {
			slice, err := r.slice(true)
			require.NoError(t, err)
			if len(slice) == 0 {
				break
			}
			bytes := 0
			for _, cmd := range slice {
				bytes += len(cmd[len(cmd)-1])
			}
			require.LessOrEqual(t, len(slice), sliceLength)
			require.LessOrEqual(t, bytes, sliceSize+200_000)
			commands += len(slice)
		}
	}
	require.Equal(t, 10_000+40+1+40, commands)
}

// Nothing to run in more bytes than a slice may have is no reason to stop: the
// commands behind it must not wait for the client to send more.
func TestEmptyLinesDoNotHideCommands(t *testing.T) {
	cfg := Config{}.withDefaults()
	text := fmt.Sprintf("*1\r\n$600000\r\n%s\r\n%sPING\r\n", strings.Repeat("x", 600_000), strings.Repeat("\r\n", 150_000))
	r := newReader(&dribble{chunks: []string{text}}, &cfg, func(int) bool { return true })
	defer r.release()
	var sizes []int
	for {
		if _, err := r.fill(); err != nil {
			require.Equal(t, io.EOF, err)
			require.Equal(t, []int{600_000, 4}, sizes)
			return
		}
		for {
			slice, err := r.slice(true)
			require.NoError(t, err)
			if len(slice) == 0 {
				hidden, _ := reference(string(r.ws.buf[r.start:r.end]), true, 1<<20)
				require.Empty(t, hidden)
				break
			}
			for _, cmd := range slice {
				sizes = append(sizes, len(cmd[0]))
			}
		}
	}
}

func TestQueryBufferAndMemoryLimits(t *testing.T) {
	cfg := Config{QueryBufferLimit: 100_000}.withDefaults()
	text := "*1\r\n$1000000\r\n" + strings.Repeat("x", 1_000_000)
	read := func(hold func(int) bool) error {
		r := newReader(&dribble{chunks: []string{text}}, &cfg, hold)
		defer r.release()
		for {
			if _, err := r.fill(); err != nil {
				return err
			}
			slice, err := r.slice(true)
			require.NoError(t, err)
			require.Empty(t, slice)
			require.LessOrEqual(t, len(r.ws.buf), 2*cfg.QueryBufferLimit)
		}
	}
	require.Equal(t, errQueryBuffer, read(func(int) bool { return true }))
	require.Equal(t, errMemory, read(func(d int) bool { return d < 0 }))
}
