package resp

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// A warm session reads without allocating, except when the pool has dropped its
// memory, which it does on purpose under the race detector.
func TestReadingDoesNotAllocate(t *testing.T) {
	read := readPipeline(64)
	commands := read()
	allocs := testing.AllocsPerRun(1000, func() { commands += read() })
	require.Less(t, allocs/64, 0.1, "per command")
	require.Greater(t, commands, 1000)
}

// drink reads a stream to its end, or to the error that ends it early.
func drink(t testing.TB, trusted bool, chunks ...string) (cmds [][]string, failure string) {
	reserved := 0
	cfg := Config{ProtoMaxBulkLen: 1 << 20, QueryBufferLimit: 4 << 20}.withDefaults()
	r := newReader(&dribble{chunks: chunks}, &cfg, func(d int) bool { reserved += d; return true })
	total := 0
	for {
		n, err := r.fill()
		if err != nil {
			require.Equal(t, io.EOF, err)
			break
		}
		total += n
		if len(r.ws.buf) > max(4*total, keepBuffer) {
			require.Fail(t, "memory must be proportional to the bytes that arrived", "%d bytes for %d", len(r.ws.buf), total)
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
	require.Zero(t, reserved, "memory must be released")
	return cmds, failure
}

func TestFragmentationDoesNotChangeWhatIsRead(t *testing.T) {
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

// With quadratic time, this test would exceed its time limit.
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

// A slice reserves the memory of its words, whether they come as bulk strings or in lines.
func TestSlicesReserveTheMemoryOfTheirWords(t *testing.T) {
	const words = 30_000
	for name, text := range map[string]string{
		"bulk strings": fmt.Sprintf("*%d\r\n%s", words, strings.Repeat("$1\r\na\r\n", words)),
		"line":         strings.Repeat("a ", words) + "\r\n",
	} {
		reserved := 0
		cfg := Config{}.withDefaults()
		r := newReader(&dribble{chunks: []string{text}}, &cfg, func(d int) bool { reserved += d; return true })
		slice, before := []Command(nil), 0
		for len(slice) == 0 {
			_, err := r.fill()
			require.NoError(t, err)
			before = reserved
			slice, err = r.slice(true)
			require.NoError(t, err)
		}
		require.Len(t, slice[0], words, name)
		require.Greater(t, reserved-before, words*argumentCost, name)
		r.release()
		require.Zero(t, reserved, name)
	}
}

// More empty lines than a slice has bytes do not end the slice: the command after them
// must not wait until the client sends more.
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

func TestLimitsBoundTheBufferOfAnIncompleteCommand(t *testing.T) {
	cfg := Config{QueryBufferLimit: 100_000}.withDefaults()
	text := "*1\r\n$1000000\r\n" + strings.Repeat("x", 1_000_000)
	read := func(reserve func(int) bool) error {
		r := newReader(&dribble{chunks: []string{text}}, &cfg, reserve)
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

// FuzzReader compares the reader with the reference, for arbitrary bytes in fragments
// of any size.
func FuzzReader(f *testing.F) {
	for i, text := range corpus {
		if len(text) < 200 {
			f.Add([]byte(text), i%2 == 0, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, trusted bool, fragment uint8) {
		text := string(data)
		want, wantErr := reference(text, trusted, 1<<20)
		got, gotErr := drink(t, trusted, bytewise(text, int(fragment)+1)...)
		if gotErr != wantErr {
			t.Fatalf("ended by %q, want %q", gotErr, wantErr)
		}
		if len(got) != len(want) {
			t.Fatalf("%d commands, want %d", len(got), len(want))
		}
		for i := range want {
			if strings.Join(got[i], "\x00") != strings.Join(want[i], "\x00") || len(got[i]) != len(want[i]) {
				t.Fatalf("command %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}
